"""What findings say, as patterns: the only place that knows the wording of `etq advice`.

Each row: the field, the rules (a pattern), a pattern of a sentence, and the name of the check of what it claims, with its
arguments. All of a text must be matched by some rows; what isn't is unchecked.
"""

from __future__ import annotations

from typing import Final

N: Final = r"[\d,.]+"
TIME: Final = rf"(?:{N} (?:ns|us|ms|s|ticks))"
COUNT: Final = rf"(?:{N} \w+)"
SHARE: Final = r"(?:over 99|[\d.,]+) %"
IDLE: Final = r"^(?:Device (?P<device>\d+)|The device) "

TRACES: Final = (
    # Idle devices: the cause, and what the host did.
    ("finding", "device idle", IDLE + r"waits for input data\.", "idle load"),
    ("finding", "device idle", IDLE + r"idles after synchronizations: the host launched nothing ahead\.", "idle sync"),
    ("finding", "device idle", IDLE + r"waits for other processes\.", "idle rank"),
    ("finding", "device idle", IDLE + r"waits for events of other streams\.", "idle stream"),
    ("finding", "device idle", IDLE + r"waits for launched kernels to start\.", "idle delay"),
    ("finding", "device idle", IDLE + r"idles: the host launches kernels too slowly\.", "idle host step"),
    ("finding", "device idle", IDLE + r"idles between steps, where nothing of a step is recorded\.", "idle pause"),
    ("finding", "device idle", IDLE + r"idles where the host records nothing, and the trace has no steps\.", "idle pause"),
    ("finding", "device idle", IDLE + r"idles for a reason that the trace does not show\.", "idle_unknown"),
    ("finding", "device idle", IDLE + r"idles while the host allocates memory\.", "idle allocation"),
    ("finding", "device idle", IDLE + r"idles while the host frees memory\.", "idle free"),
    ("finding", "device idle", IDLE + r"idles while the host allocates, releases or registers pinned memory\.", "idle pinned_memory"),
    ("finding", "device idle", IDLE + r"idles while the host loads kernels\.", "idle module_load"),
    ("finding", "device idle", IDLE + r"idles while the host captures or instantiates graphs\.", "idle graph_instantiation"),
    ("finding", "device idle", IDLE + r"idles while the host creates streams, events or contexts\.", "idle creation"),
    ("finding", "device idle", IDLE + r"idles while the host (?:runs|compiles in) (?P<subject>.+)\.$", "idle_in"),
    ("finding", "device idle", IDLE + r"idles while the host (?:runs (?:ops|functions) that launch nothing|compiles)\.", "idle function cpu_op compile"),
    ("evidence", ".*", rf"(?P<part>{TIME}) of (?P<whole>{TIME}) \((?P<of>[^)]*)\) in {COUNT}(?:, the longest {TIME} from {TIME})?", "whole"),
    ("evidence", "device idle", r"the host was mostly in (?P<subject>.+?)(?=;|$)", "mostly_in"),
    ("evidence", ".*", r"etq (?:idle --each|critical-path|ops|kernels)[^;]*lists? (?:them|the ops).*", ""),
    ("evidence", ".*", rf"^\w[\w ]* {SHARE}(?:, \w[\w ]* {SHARE})*$", ""),
    # The critical path.
    ("finding", "critical path", rf"^{SHARE} of the critical path is (?P<subject>.+)\.$", "on_path"),
    ("evidence", "critical path", rf"(?:^|, |; )(?P<device>{SHARE}) of it on devices, (?P<host>{SHARE}) on the host", "path_sides"),
    ("evidence", "critical path", r"(?:; )?mostly the kernel (?P<kernel>.+?)(?=;|$)", ""),
    ("evidence", "critical path", r"(?:; )?mostly in (?P<subject>.+?)(?=;|$)", ""),
    # Time of devices.
    ("finding", "device time", rf"^Time of devices: (?P<families>{SHARE} .+)\.$", "families"),
    ("evidence", "device time", r"(?P<calls>[\d,]+) calls? of (?P<family>[\w ]+), most time in (?P<kernel>.*?)(?=; etq|;\s*\d|$)", "top_family"),
    ("finding", "fusable kernels", r"^Kernels that compute element by element or reduce follow each other: (?P<kernels>[\d,]+) kernels? in (?P<chains>[\d,]+) chains?\.", "chains"),
    ("evidence", "fusable kernels", r"^chains of most time: .*", ""),
    # Steps.
    ("finding", "communication", r"^Steps wait for other processes: rank (?P<rank>\d+) comes last to collectives\.", "waits_for_rank"),
    ("finding", "communication", r"^Steps transfer data between processes\.", "transfers"),
    ("finding", "communication", r"^Steps communicate; one rank does not show whether they wait for another or for the transfer: ingest all ranks as one job\.", "one_rank"),
    ("evidence", "communication", rf"(?P<share>{SHARE}) of the (?:step time|recording) is in communication", "step_share communication"),
    ("finding", "data loader", r"^Steps wait for input data\.", "waits_for_data"),
    ("evidence", "data loader", rf"(?P<share>{SHARE}) of the (?:step time|recording) is in DataLoader", "step_share load"),
    ("finding", "gpu utilization", r"^(?:The device|Device \d+) is mostly idle(?: within the steps)?\.", "mostly_idle"),
    ("evidence", "gpu utilization", rf"a kernel ran in (?P<share>{SHARE}) of the (?P<of>steps|recording)", "kernel_share"),
    ("finding", "compilation", rf"^torch\.compile compiles in (?P<share>{SHARE}) of the recording\.", "compiles"),
    ("finding", "tensor cores", r"^No kernel uses tensor cores, and ops could\.", "no_tensor_cores"),
    ("evidence", "tensor cores", rf"ops that could launched {SHARE} of the time of kernels", ""),
    ("finding", "lost kernels", r"^(?P<lost>[\d,]+) launch(?:es)? of (?P<launches>[\d,]+) ha(?:ve|s) no event of a device: (?:their kernels are|its kernel is) missing\.", "lost"),
    ("evidence", "lost kernels", r"calls of \S+", ""),
    ("evidence", "lost kernels", r"etq ops has means over the calls whose kernels are known", ""),
    # Remedies: what they need to be true.
    ("remedy", ".*", r"Set num_workers and pin_memory of DataLoader\.", "for_loader no workers"),
    ("remedy", ".*", r"Its workers are too slow: more of them, less work per sample, or a greater prefetch_factor\.", "for_loader workers"),
    ("remedy", ".*", r"Avoid \.item\(\), \.cpu\(\) and printing of tensors within steps\.", "for_cause sync"),
    ("remedy", ".*", r"(?:If the bytes matter, )?(?:Try )?gradient (?:compression, gradient )?accumulation(?:, or a larger batch| or compression)\.", "for_training transfer"),
    ("remedy", ".*", r"Overlap communication and computation\.", "for_transfer"),
    ("remedy", ".*", r"Find what makes rank (?P<rank>\d+) late: compare its steps with the others \([^)]*\)\.", "waits_for_rank"),
    ("remedy", ".*", r"Try a larger batch, if the model converges as well with it\.", "for_training"),
    ("remedy", ".*", r"Launch fewer and larger ops: torch\.compile, CUDA graphs\.", "for_launches no compile"),
    ("remedy", ".*", r"Launch fewer and larger ops: CUDA graphs; torch\.compile makes them with mode=\"reduce-overhead\"\.", "for_launches compile"),
    ("remedy", ".*", r"Launch larger kernels, or replay CUDA graphs\.", "for_cause delay"),
    ("remedy", ".*", r"Run it in other processes or threads, or before the steps\.", "for_cause function"),
    ("remedy", ".*", r"\S+ runs on the CPU and launches nothing: move it to the device, or out of the steps\.", "for_cause cpu_op"),
    ("remedy", ".*", r"Python between the ops takes it: do less there, or let torch\.compile or CUDA graphs run the step as one\.", "for_cause step"),
    ("remedy", ".*", r"It compiles: record steps after a warm-up, and mark changing sizes as dynamic\.", "for_cause compile"),
    ("remedy", ".*", r"Make kernels of this op faster or fewer: (?:smaller types, )?fusion\.", "for_op"),
    ("remedy", ".*", r"Let it wait less: launch ahead, synchronize less often\.", ""),
    ("remedy", ".*", r"Let streams wait for fewer events of others\.", "for_cause stream"),
    ("remedy", ".*", r"The products run on tensor cores already: make fewer of them(?:, or use smaller types where accuracy allows)?\.", "for_products tensor"),
    ("remedy", ".*", r"Matrix products run without (?:tensor|matrix) cores: use (?:bfloat16(?:, or allow TF32)?|float16)\.", "for_products plain"),
    ("remedy", ".*", r"Try automatic mixed precision\.", "for_products plain"),
    ("remedy", ".*", r"(?:These kernels are limited by memory: )?torch\.compile fuses those that follow each other\.", "for_memory no compile"),
    ("remedy", ".*", r"These kernels are limited by memory: fewer passes over it, or smaller types\.", "for_memory"),
    ("remedy", ".*", r"Copies compute nothing: keep one memory format and type, and avoid contiguous\(\) and cat\.", "for_copies Device"),
    ("remedy", ".*", r"Copy less, or from pinned memory with non_blocking=True, ahead of its use\.", "for_copies HtoD"),
    ("remedy", ".*", r"Copy results less often, or into pinned memory with non_blocking=True\.", "for_copies DtoH"),
    ("remedy", "device time", r"Copy from pinned memory \(pin_memory\), which is faster, and then asynchronously \(non_blocking=True\); copy less\.", "for_copies Pageable"),
    ("remedy", "device time", r"Copy less, or while kernels run: asynchronously \(non_blocking=True\) from pinned memory\.", "for_copies HtoD"),
    ("remedy", "device time", r"Copy less to the host, or while kernels run: asynchronously \(non_blocking=True\) to pinned memory\.", "for_copies DtoH"),
    ("remedy", "device time", r"etq show device_breakdown shows how much is exposed; with all processes in one job, etq show collective_waits shows how much is waiting for others\.", ""),
    ("remedy", "device time", r"etq ops lists the ops with most of it\.", ""),
    ("remedy", "fusable kernels", r"torch\.compile may fuse each chain into one kernel, which reads and writes memory once\. If that takes as long as the chain's longest, it saves .*\.", "not_compiled"),
    ("remedy", "lost kernels", r"Record fewer steps at once, after a warm-up step, and without another profiler\.", ""),
    ("remedy", ".*", r"Reuse memory by the caching allocator(?:: unset PYTORCH_NO_CUDA_MEMORY_CACHING)?, and record steps after a warm-up\.", "for_cause allocation"),
    ("remedy", ".*", r"Keep memory in the caching allocator: (?:unset PYTORCH_NO_CUDA_MEMORY_CACHING, )?no torch\.cuda\.empty_cache\(\) within steps\.", "for_cause free"),
    ("remedy", ".*", r"Reuse pinned buffers(?:: a pool, or pin_memory of DataLoader)?\.", "for_cause pinned_memory"),
    ("remedy", ".*", r"Record steps after a warm-up: the first use of a kernel loads it(?:; CUDA_MODULE_LOADING=EAGER loads all at the start)?\.", "for_cause module_load"),
    ("remedy", ".*", r"Capture and instantiate graphs once, before the steps\.", "for_cause graph_instantiation"),
    ("remedy", ".*", r"Create (?:streams, events and contexts|them) once, before the steps(?:; record steps after a warm-up)?\.", "for_cause creation"),
)  # fmt: skip

OPS: Final = (
    rf"(?P<op>[^;]+?) (?P<time>{TIME}) in (?P<calls>{N}) calls?(?: \((?:most in )?instructions? [\d, ]+\))?(?:, |$)"
)

DUMPS: Final = (
    ("finding", "framework tax", rf"^Outside of kernels and delegates, the median run takes (?P<time>{TIME}) of (?P<whole>{TIME}) \((?P<share>{SHARE})\), tracing included", "tax"),
    ("finding", "framework tax", rf"[:,] {TIME} for each of its (?P<events>{N}) events?, (?:about the cost of logging one: tracing is the likely reason|and this clock does not show how much of it is tracing|more than the cost of logging one: tracing alone does not explain it)\.", "tax_events"),
    ("evidence", "framework tax", r"^framework_tax over [\d,]+ runs?; operator-call overhead and rest in execute_breakdown$", ""),
    ("remedy", "framework tax", r"^Capture the program at level method_only too, .*", ""),
    ("finding", "nothing delegated", rf"^No delegate runs anything: convolutions and matrix products \((?P<names>[\w, ]+)\), which backends are made for, take (?P<time>{TIME}) of the average run \((?P<share>{SHARE})\) in kernels\.", "heavy"),
    ("remedy", "nothing delegated", r"^Lower the model with a partitioner for the device .*", ""),
    ("finding", "fallback kernels", rf"^Next to (?P<delegates>{N}) delegate calls?, the average run has (?P<kernels>{N}) kernels? for ops that no delegate took: (?P<time>{TIME}) \((?P<share>{SHARE})\), most of it in (?P<worst>[\w.]+)\.$", "fallback"),
    ("remedy", "fallback kernels", r"^List the nodes left over: etq coverage\. Have the partitioner take .*", ""),
    ("finding", "small delegate calls", rf"^The average run calls delegates (?P<calls>{N}) times?, (?P<each>{TIME}) each, (?:(?P<share>{SHARE}) of it copies, layout and time that the delegates' events leave unaccounted|and the delegates' events do not show how much of it is overhead)\.$", "small_calls"),
    ("remedy", "small delegate calls", r"^Join the parts: etq coverage lists .*", ""),
    ("finding", "copies", rf"^Ops that compute nothing, but move or convert data, take (?P<time>{TIME}) of the average run \((?P<share>{SHARE})\)\.$", "copied"),
    ("remedy", "copies", r"Export with inputs in the memory format that the ops need, so that dim orders do not change between ops\.", ""),
    ("remedy", "copies", r"Give the delegate its inputs in the layout that it computes in \(channels last for convolutions of XNNPACK\)\.", "in_delegates"),
    ("remedy", "copies", r"Look for permute, transpose, expand and contiguous in the lines named, and for ops that can be delegated together with their neighbours\.", ""),
    ("finding", "dominating op", rf"^The op (?P<op>.+) takes (?P<time>{TIME}) of the average run \((?P<share>{SHARE})\): making all else faster gains at most (?P<rest>{SHARE})\.$", "dominating"),
    ("remedy", "dominating op", r"^Optimize this first: .*", ""),
    ("finding", "first run", rf"^The first run takes (?P<time>{TIME}), (?P<ratio>{N}) times the median of the (?P<runs>{N}) runs? after it \((?P<median>{TIME})\): it is a warm-up\.$", "first_run"),
    ("evidence", "first run", r"^run \d+; first run excess in load_breakdown$", ""),
    ("remedy", "first run", r"^Leave it out of averages and totals, .*", ""),
    ("finding", "slow runs", rf"^Without the first, (?P<slow>{N}) of (?P<runs>{N}) runs took longer than typical, the slowest (?P<time>{TIME}) against (?P<median>{TIME}): this excess is (?P<share>{SHARE}) of the time of all runs\.$", "slow_runs"),
    ("evidence", "slow runs", rf"run (?P<run>\d+) (?P<time>{TIME})", "slow_run"),
    ("remedy", "slow runs", r"^See whether some ops or all of them grow in the slow runs: .*", ""),
    ("finding", "variance", rf"^Runs that log the same events, without the first, take (?P<low>{TIME}) \(p10\) to (?P<high>{TIME}) \(p90\), a spread of (?P<share>{SHARE}) around the median of (?P<median>{TIME}): to detect a change of 5 %, (?:more than|about) {N} captures per side are needed\.$", "varies"),
    ("evidence", "variance", r"^[\d,]+ runs of block \d+, without the first run$", ""),
    ("remedy", "variance", r"^Check that these runs had the same method and inputs\..*", ""),
    ("finding", "few runs", rf"^The capture has (?P<runs>{N}) runs?, warm-up included: too few for percentiles, or to separate noise from change\.$", "few_runs"),
    ("evidence", "few runs", r"^runs \d+ to \d+$", ""),
    ("remedy", "few runs", r"^Record about 40 runs in a capture, .*", ""),
    ("finding", "loading", rf"^Loading took (?P<time>{TIME}), as much as (?P<runs>{N}) median runs: (?P<share>{SHARE}) of the time in this capture\.$", "loading"),
    ("evidence", "loading", rf"^1 Program::load_method, of it Method::init {TIME}$", ""),
    ("remedy", "loading", r"^Where sessions are short, load a method once .*", ""),
    ("finding", "coarse clock", rf"^Events (?P<within>within delegates )?are timed (?:in steps of (?P<step>{TIME})|too coarsely)(?:, and half of them take at most (?P<middle>{TIME}))?: (?P<zeros>{SHARE}) have a time of 0\.$", "coarse"),
    ("evidence", "coarse clock", r"^[\d,]+ events over all runs, [\d,]+ of them 0$", ""),
    ("remedy", "coarse clock", r"^(?:Use the time of each DELEGATE_CALL as a whole|Make the platform's clock finer).*", ""),
    ("finding", "failed runs", r"^(?P<runs>[\d,]+) (?:of [\d,]+ )?runs? .*", "failed"),
    ("evidence", "failed runs|wrapped clock", r"^in findings$", ""),
    ("finding", "wrapped clock", r"^[\d,]+ events? ends? after the 32-bit counter passed zero\.$", "wrapped"),
    ("remedy", "wrapped clock", r"^None, as long as .*", ""),
    ("remedy", "failed runs", r"^Look for the error of these runs in the runtime's log\. The other runs are complete\.$", ""),
    ("evidence", "copies|fallback kernels|small delegate calls|nothing delegated|dominating op", OPS, "timed_op"),
)  # fmt: skip
