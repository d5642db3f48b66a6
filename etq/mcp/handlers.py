"""What the server answers to each request of the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp import MCPError

from etq import catalog
from etq.errors import EtqError
from etq.mcp.answers import Settings
from etq.mcp.limits import encoded
from etq.mcp.pool import Pool
from etq.mcp.prompts import PROMPTS
from etq.mcp.tools import BY_NAME, TOOLS, result_schema

SCHEMA: Final = "etq://schema"
GLOSSARY: Final = "etq://glossary"
_MARKDOWN: Final = "text/markdown"


class Tools:
    """The tools: their list, and their calls, which processes of `pool` answer."""

    def __init__(self, pool: Pool, settings: Settings) -> None:
        self._pool, self._settings = pool, settings

    async def list(self, _: Any, __: Any) -> types.ListToolsResult:
        """Return the tools."""
        read_only = types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    title=tool.title,
                    description=tool.text,
                    input_schema=tool.arguments_schema,
                    output_schema=result_schema(tool.name),
                    annotations=read_only,
                )
                for tool in TOOLS
            ]
        )

    async def call(self, _: Any, params: Any) -> types.CallToolResult:
        """Return the result of a call, or an error with what to do."""
        error = _wrong_call(params.name, params.arguments or {})
        if error is None:
            request = {"tool": params.name, "settings": self._settings, "arguments": params.arguments or {}}
            answer = await self._pool.answer(request)
            if "result" in answer:
                content = [types.TextContent(type="text", text=encoded(answer["result"]))]
                return types.CallToolResult(content=content, structured_content=answer["result"])
            error = {"error": answer["error"], "next": BY_NAME[params.name].remedy}
        return types.CallToolResult(content=[types.TextContent(type="text", text=encoded(error))], is_error=True)


async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
    """Return the resources."""
    schema = "All tables, views and macros, and what a row of each is."
    glossary = "The words of tables, documentation and messages."
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=SCHEMA, name="schema", description=schema, mime_type=_MARKDOWN),
            types.Resource(uri=GLOSSARY, name="glossary", description=glossary, mime_type=_MARKDOWN),
        ]
    )


async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
    """Return the one template of resources: the documentation of a table, view or macro."""
    text = "One table, view or macro with its parameters and columns."
    template = types.ResourceTemplate(
        uri_template=f"{SCHEMA}/{{name}}", name="view", description=text, mime_type=_MARKDOWN
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_: Any, params: Any) -> types.ReadResourceResult:
    """Return the text of a resource. Raises `MCPError` if there is none."""
    try:
        text = resource(str(params.uri))
    except EtqError as error:
        raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=params.uri, mime_type=_MARKDOWN, text=text)]
    )


async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
    """Return the prompts."""
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.title,
                arguments=[
                    types.PromptArgument(name=name, description=text, required=True)
                    for name, text in prompt.arguments.items()
                ],
            )
            for prompt in PROMPTS.values()
        ]
    )


async def get_prompt(_: Any, params: Any) -> types.GetPromptResult:
    """Return a prompt's text. Raises `MCPError` if there is none of the name, or an argument is missing."""
    try:
        prompt = PROMPTS[params.name]
        text = prompt.text(params.arguments or {})
    except (KeyError, EtqError) as error:
        wrong = str(error) if isinstance(error, EtqError) else f"no prompt {params.name!r}"
        message = f"{wrong}; prompts are {', '.join(PROMPTS)}"
        raise MCPError(code=types.INVALID_PARAMS, message=message) from None
    content = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=prompt.title, messages=[content])


def _wrong_call(name: str, arguments: dict[str, Any]) -> dict[str, str] | None:
    """Return what is wrong with a call, and what to do; None if nothing is."""
    from jsonschema import Draft202012Validator

    if name not in BY_NAME:
        return {"error": f"no tool {name!r}", "next": f"call one of {', '.join(BY_NAME)}"}
    tool = BY_NAME[name]
    wrong = next(iter(Draft202012Validator(tool.arguments_schema).iter_errors(arguments)), None)
    if wrong is None:
        return None
    place = "".join(f"{each}: " for each in wrong.path)
    text = str(EtqError(f"{place}{wrong.message}"))
    parameters = ", ".join(f"{each} (required)" if each in tool.required else each for each in tool.parameters)
    return {"error": text, "next": f"call {name} with {parameters}"}


def resource(uri: str) -> str:
    """Return the text of a resource. Raises `EtqError` if there is none."""
    if uri == GLOSSARY:
        return Path(__file__).with_name("glossary.md").read_text(encoding="utf-8")
    if uri == SCHEMA:
        rows = [f"| {each.name} | {each.kind} | {each.text.split('. ')[0]} |" for each in catalog.public_objects()]
        return "\n".join(["| name | kind | what a row is |", "|---|---|---|", *rows, ""])
    if uri.startswith(f"{SCHEMA}/"):
        return _documentation(catalog.public_object(uri.removeprefix(f"{SCHEMA}/")))
    raise EtqError(f"{uri}: not a resource; resources are {SCHEMA}, {SCHEMA}/NAME and {GLOSSARY}")


def _documentation(target: catalog.SqlObject) -> str:
    lines = [f"# {target.name} ({target.kind})", "", target.text, ""]
    for title, listed in (("Parameters", target.parameters), ("Columns", target.columns)):
        if listed:
            rows = [f"| {each.name} | {each.type or each.default or ''} | {each.text} |" for each in listed]
            lines += [f"## {title}", "", "| name | type or default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)
