"""The handlers of the server's requests. Importing this module needs the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import MCPError

from etq.errors import EtqError
from etq.mcp.answers import Settings
from etq.mcp.limits import encoded, without_commands
from etq.mcp.pool import CallPool
from etq.mcp.prompts import PROMPTS
from etq.mcp.resources import GLOSSARY, SCHEMA, resource
from etq.mcp.tools import BY_NAME, TOOLS


class Handlers:
    """Answers the requests of a client. The first parameter of each is the request's context, which none needs."""

    def __init__(self, pool: CallPool, settings: Settings) -> None:
        self._pool, self._settings = pool, settings

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[dict[str, Any]]:
        """Close the pool when the server ends."""
        try:
            yield {}
        finally:
            self._pool.close()

    async def list_tools(self, _: Any, __: Any) -> Any:
        """Return all tools; none of them writes."""
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
                    annotations=read_only,
                )
                for tool in TOOLS
            ]
        )

    async def call_tool(self, _: Any, params: Any) -> Any:
        """Return the result of a tool as JSON, or an error with what to call next."""
        error = _wrong_call(params.name, params.arguments or {})
        called = BY_NAME.get(params.name, TOOLS[0])
        if error is None:
            request = {"tool": params.name, "settings": self._settings, "arguments": params.arguments or {}}
            answer = await self._pool.answer(request)
            if "result" in answer:
                return _text(answer["result"])
            error = answer["error"]
        further = [{"tool": called.after_error, "arguments": {}}]
        return _text({"error": without_commands(error), "next": further}, is_error=True)

    async def list_resources(self, _: Any, __: Any) -> Any:
        """Return the schema and the glossary."""
        schema = "All tables, views and macros, and what a row of each is."
        glossary = "The words of tables, documentation and messages."
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=SCHEMA, name="schema", description=schema, mime_type="text/markdown"),
                types.Resource(uri=GLOSSARY, name="glossary", description=glossary, mime_type="text/markdown"),
            ]
        )

    async def list_templates(self, _: Any, __: Any) -> Any:
        """Return the template for the documentation of one view."""
        text = "One table, view or macro with its parameters and columns."
        template = types.ResourceTemplate(
            uri_template=f"{SCHEMA}/{{name}}", name="view", description=text, mime_type="text/markdown"
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, _: Any, params: Any) -> Any:
        """Return the text of a resource."""
        try:
            text = resource(str(params.uri))
        except EtqError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
        content = types.TextResourceContents(uri=params.uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _: Any, __: Any) -> Any:
        """Return all prompts with their arguments."""
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

    async def get_prompt(self, _: Any, params: Any) -> Any:
        """Return the text of a prompt for the given arguments."""
        try:
            prompt = PROMPTS[params.name]
            text = prompt.text(params.arguments or {})
        except (KeyError, EtqError) as error:
            wrong = str(error) if isinstance(error, EtqError) else f"no prompt {params.name!r}"
            message = f"{wrong}; prompts are {', '.join(PROMPTS)}"
            raise MCPError(code=types.INVALID_PARAMS, message=message) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompt.title, messages=[message])


def _text(value: dict[str, Any], *, is_error: bool = False) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=encoded(value))], is_error=is_error)


def _wrong_call(name: str, arguments: dict[str, Any]) -> str | None:
    """Return what is wrong with a call; None if nothing is."""
    from jsonschema import Draft202012Validator

    if name not in BY_NAME:
        return f"no tool {name!r}; tools are {', '.join(BY_NAME)}"
    tool = BY_NAME[name]
    wrong = next(iter(Draft202012Validator(tool.arguments_schema).iter_errors(arguments)), None)
    if wrong is None:
        return None
    place = "".join(f"{each}: " for each in wrong.path)
    parameters = ", ".join(f"{each} (required)" if each in tool.required else each for each in tool.parameters)
    return f"{EtqError(f'{place}{wrong.message}')}; call {name} with {parameters}"
