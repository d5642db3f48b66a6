# Made from the SQL files by `python -m etq.warehouse.views`; a test fails if it is stale.
from collections.abc import Sequence

import duckdb

from etq.catalog import SqlObject
from etq.database.handles import Capture, Program, Record

class Views:
    def advice(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def annotation_kernels(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def average_step(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def backward_times(
        self,
        capture: str | Capture,
        by: str = ...,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def block_methods(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def capture_groups(
        self,
        by: str,
        selectors: Sequence[str] | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def clock_offsets(
        self,
        selector: str | None = ...,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def collectives(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_calls(
        self,
        base: str | Capture,
        new: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_captures(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        quantile: float = ...,
        phase: str | None = ...,
        history: str | None = ...,
        alpha: float = ...,
        min_effect: float | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_findings(
        self,
        base: str | Capture,
        new: str | Capture,
        quantile: float = ...,
        phase: str | None = ...,
        history: str | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_graphs(
        self,
        base: str | Capture | Record,
        new: str | Capture | Record,
        base_stage: str | None = ...,
        new_stage: str | None = ...,
        unit: str | None = ...,
        reference: str | None = ...,
        metric: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_metrics(
        self,
        base: str | Capture,
        new: str | Capture,
        alpha: float = ...,
        min_effect: float | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_modules(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        quantile: float = ...,
        phase: str | None = ...,
        history: str | None = ...,
        alpha: float = ...,
        min_effect: float | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_ops(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        quantile: float = ...,
        phase: str | None = ...,
        history: str | None = ...,
        alpha: float = ...,
        min_effect: float | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_parts(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        quantile: float = ...,
        phase: str | None = ...,
        history: str | None = ...,
        alpha: float = ...,
        min_effect: float | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_programs(
        self,
        base: str | Program,
        new: str | Program,
    ) -> duckdb.DuckDBPyRelation: ...
    def compare_startup(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        alpha: float = ...,
        min_effect: float | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def compared_captures(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        quantile: float = ...,
        phase: str | None = ...,
        history: str | None = ...,
        allow_mismatch: bool = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def copies(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def copy_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def critical_ops(
        self,
        capture: str | Capture,
        step: int | None = ...,
        unit: str | None = ...,
        step_name: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def critical_path(
        self,
        capture: str | Capture,
        step: int | None = ...,
        unit: str | None = ...,
        step_name: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def decode_trend(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def delegate_coverage(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def delegate_graph(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def delegate_metadata(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def delegate_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def delegation(
        self,
        record: str | Record,
        program: str | Program | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def device_breakdown(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        by: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def device_idle(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        by: str = ...,
        launch_delay_us: float | None = ...,
        kernel_wait_us: int = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def device_idle_causes(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        by: str = ...,
        launch_delay_us: float | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def event_blocks(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def event_histogram(
        self,
        capture: str | Capture,
        bins: int = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def event_nodes(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def event_ops(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def event_times(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def execute_breakdown(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def find_total_for_module(
        self,
        capture: str | Capture,
        module: str,
        unit: str | None = ...,
        match: str = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def framework_tax(
        self,
        capture: str | Capture,
        baseline: str | Capture | None = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def fusable_chains(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def gpu_metrics(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def gpu_utilization(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def headline(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def held_memory(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def inspector_events(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        repeats: str = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def iterations(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def kernel_counters(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def kernel_families(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def kernel_launches(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def kernel_sequences(
        self,
        capture: str | Capture,
        op: str | None = ...,
        min_length: int = ...,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def kernel_table(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def key_averages(
        self,
        capture: str | Capture,
        by: str = ...,
        unit: str | None = ...,
        stack_depth: int = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
        include_python_functions: int = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def launch_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def load_breakdown(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def logged_values(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def memory_leaks(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def memory_timeline(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def memory_totals(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def metric_values(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def model_map(
        self,
        etdump: str | Capture,
        trace: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def module_ops(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def module_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def module_tree(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def node_costs(
        self,
        record: str | Record,
    ) -> duckdb.DuckDBPyRelation: ...
    def node_gaps(
        self,
        base: str | Capture,
        new: str | Capture,
        metric: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def node_memory(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def node_roofline(
        self,
        capture: str | Capture,
        peak_flops: str | None = ...,
        peak_bandwidth: str | None = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def node_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def numeric_gap(
        self,
        base: str | Capture,
        new: str | Capture,
        metric: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def op_costs(
        self,
        record: str | Record,
    ) -> duckdb.DuckDBPyRelation: ...
    def op_totals(
        self,
        capture: str | Capture,
        by: str = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def op_trends(
        self,
        selector: str | None = ...,
        over: str = ...,
        by: str = ...,
        bins: int = ...,
        unit: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def operator_table(
        self,
        capture: str | Capture,
        by: str = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def passes(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        by: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def peak_memory(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def percentiles(
        self,
        capture: str | Capture,
        quantiles: Sequence[float] = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def phase_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def planned_memory(
        self,
        program: str | Program,
        method: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def prof_result_memory(
        self,
        capture: str | Capture,
    ) -> duckdb.DuckDBPyRelation: ...
    def prof_result_profile(
        self,
        capture: str | Capture,
        time_scale: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def prof_result_tax(
        self,
        capture: str | Capture,
        time_scale: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def program_size(
        self,
        program: str | Program,
    ) -> duckdb.DuckDBPyRelation: ...
    def queue_lengths(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def queue_summary(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        full_length: int = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def rank_steps(
        self,
        selector: str | None = ...,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def regressions(
        self,
        selector: str | None = ...,
        over: str = ...,
        by: str = ...,
        since: str | None = ...,
        unit: str | None = ...,
        phase: str | None = ...,
        alpha: float = ...,
        min_effect: float | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def roofline(
        self,
        capture: str | Capture,
        peak_flops: str | None = ...,
        peak_bandwidth: str | None = ...,
        by: str = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def run_times(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def slow_runs(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def source_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def step_breakdown(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def stragglers(
        self,
        selector: str | None = ...,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def tensor_core_use(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        by: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def time_tree(
        self,
        capture: str | Capture,
        by: str | None = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
        runs: str = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def timeline(
        self,
        capture: str | Capture,
        runs: str | None = ...,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def trace_diff(
        self,
        base: str | Capture,
        new: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def trace_memory_stats(
        self,
        capture: str | Capture,
        steps: str | None = ...,
        phase: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def trace_recommendations(
        self,
        capture: str | Capture,
        data_loader_percent: int = ...,
        communication_percent: int = ...,
        utilization_percent: int = ...,
        memory_percent: int = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def trend(
        self,
        what: str = ...,
        item: str | None = ...,
        selector: str | None = ...,
        over: str = ...,
        by: str = ...,
        unit: str | None = ...,
        phase: str | None = ...,
        min_effect: float | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def typical_runs(
        self,
        capture: str | Capture,
        unit: str | None = ...,
        steps: str | None = ...,
        phase: str | None = ...,
        method: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def wide_steps(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def work_totals(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...
    def work_types(
        self,
        capture: str | Capture,
        unit: str | None = ...,
    ) -> duckdb.DuckDBPyRelation: ...

def table_macros() -> list[SqlObject]: ...
def documentation(macro: SqlObject) -> str: ...
def stub() -> str: ...
