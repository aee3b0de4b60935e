#include "training/config/internal/file_reference.h"

#include <algorithm>
#include <array>
#include <string>

#include "cluster/cluster/cluster_file.h"
#include "cluster/cost/cost_file.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/preset.h"

namespace tessera {
namespace {

constexpr KeyMeaning kPresetMeanings[] = {
    {"dp", "Parts of the batch: dim 0 of every input", "dp = 2"},
    {"tp",
     "Parts of weights by their roles: columns of one product and rows of the next, heads of "
     "attention, channels between two convolutions, states of a recurrence where they are made, "
     "the vocabulary of tables and of the output",
     "tp = 2"},
    {"fsdp",
     "Parts of the batch, as those of `dp`, over which `zero` divides; without `zero` it is 3. "
     "With "
     "`dp` outside of it, state is divided inside of a group and the same in all groups (HSDP)",
     "fsdp = 8"},
    {"sp", "Parts of space: rows of images, or positions of a sequence", "sp = \"rest\""},
    {"pp",
     "Stages of nearly equal work; `interleaved` has `chunks` for each, `zb-v`, `v-half` and "
     "`v-min` "
     "have two. Without `micro_batches` the batch has the largest divisor of it that is at "
     "most two for each of `pp`",
     "pp = 2"},
    {"zero",
     "What the ranks of `fsdp`, or of `dp` without it, divide in place of keeping all of it, as "
     "ZeRO does: `1` the state of "
     "the optimizer; `2` the sums of gradients over micro-batches, too, so that each micro-batch "
     "is "
     "reduced and scattered; `3` the parameters, too",
     "zero = 1"},
    {"master_weights",
     "With `zero` and products in 16 bits: are the f32 parameters divided, too? Each rank then "
     "keeps "
     "a part of them, and a copy in 16 bits for a step",
     "master_weights = \"whole\""},
    {"sequence_parallel",
     "The ranks of `tp` divide the positions of a sequence where they do not divide weights, as "
     "Megatron's sequence parallelism does: sums are reduced and scattered, and gathered for the "
     "next products",
     "sequence_parallel = true"},
    {"chunks", "Stages of each of `pp` with `interleaved`; 0 is two", "chunks = 3"},
    {"stages",
     "`equal`: where a plan is searched, it has stages of equal work, as those of `pp` are",
     "stages = \"equal\""},
    {"boundaries",
     "Names of ops or layers after which the stages end, all but the last one; in a text with `+` "
     "between them",
     "boundaries = [\"blocks.5\"]"},
    {"stage_layers",
     "The repeated layers of each stage: numbers, in a text with `+` between them, or `equal`: as "
     "many for each, and one less at both ends where they are no multiple",
     "stage_layers = [5, 6, 6, 5]"},
    {"stage_hardware",
     "The stages with ops of this name, or of this layer, run on devices of this kind (`cpu`, "
     "`gpu`, "
     "`npu`) or type; in a text with `+` between several",
     "stage_hardware = [\"blocks.0:gpu\"]"},
};

constexpr KeyMeaning kPlanMeanings[] = {
    {"format", "Version of the file format, always 1", R"("format": 1)"},
    {"mesh",
     "The mesh of a plan without pipeline, its axes in the order of ranks; a list are the "
     "[weights](plans.md#weights-of-parts) of the parts, `\"rest\"` is what `--ranks` or `mpirun "
     "-n` leaves; `{}` is one rank",
     R"("mesh": {"dp": [2, 1], "tp": 2})"},
    {"meshes", "The stages of a pipeline, instead of `mesh`",
     R"("meshes": [{"name": "all", "mesh": {"dp": 2}, "ranks": [0, 1]}])"},
    {"meshes[].name", "Name for marks and messages",
     R"("meshes": [{"name": "first", "mesh": {}, "ranks": [0]}])"},
    {"meshes[].mesh", "Axes and sizes, or weights",
     R"("meshes": [{"name": "all", "mesh": {"tp": 2}, "ranks": [0, 1]}])"},
    {"meshes[].ranks",
     "Its ranks, in row-major order of the axes. All meshes together number them 0, 1, 2, ... "
     "without a gap; meshes may share ranks",
     R"("meshes": [{"name": "all", "mesh": {"dp": 2}, "ranks": [1, 0]}])"},
    {"meshes[].device", "As `device`, for this mesh",
     R"("meshes": [{"name": "all", "mesh": {}, "ranks": [0], "device": "fake"}])"},
    {"meshes[].view_of",
     "The stage of whose ranks it is [another mesh](plans.md#views-of-a-stage); `ranks` may be "
     "left "
     "out",
     R"("meshes": [{"name": "all", "mesh": {"dp": 2}, "ranks": [0, 1]}, {"name": "wide", "mesh": )"
     R"({"tp": 2}, "view_of": "all"}])"},
    {"meshes[].hardware", "As `hardware`, for this mesh",
     R"("meshes": [{"name": "all", "mesh": {}, "ranks": [0], "hardware": "gpu"}])"},
    {"hardware",
     "What ranks need of a cluster: `cpu`, `gpu`, `npu`, or a type of device; empty: any",
     R"("hardware": "gpu")"},
    {"device", "What ranks compute on ([devices](devices.md))", R"("device": "fake")"},
    {"tasks",
     "Where tasks end besides exchanges and passes: nowhere, at the borders of the repeated blocks "
     "of the model, after each op, or where ops stop to match a pattern. Results do not change",
     R"("tasks": ["*.attn.*"])"},
    {"recompute",
     "Results of the forward that the backward computes again, instead of keeping them "
     "([recompute](plans.md#recompute)): none, what is cheap, everything inside of layers, the "
     "cheapest under `activation_mib`, or the results of the ops that match a pattern",
     R"("recompute": "selective")"},
    {"activation_mib",
     "Of recompute `auto`: most MiB of results of the forward that a rank keeps for the backward",
     R"("recompute": "auto", "activation_mib": 512)"},
    {"offload",
     "State of the optimizer that rests in a file instead of in memory "
     "([offload](passes.md#offload)): none, all of it, or the variables that match a pattern",
     R"("offload": "state")"},
    {"offload_mib",
     "Memory of a rank for offloaded state at once, or what one variable needs if that is more",
     R"("offload": "state", "offload_mib": 64)"},
    {"micro_batches", "Parts of the batch of a step, one after the other; they divide it",
     R"("micro_batches": 4)"},
    {"accumulate",
     "Parts of the batch of a step whose gradients are summed before the update; each has "
     "`micro_batches` of them ([accumulation](passes.md#accumulation))",
     R"("accumulate": 4)"},
    {"schedule",
     "Order of the passes of a pipeline ([schedules](pipelines.md#schedules)); another one than "
     "`1f1b` needs several micro-batches",
     R"("micro_batches": 4, "schedule": "zb-h1")"},
    {"max_in_flight",
     "Micro-batches whose activations a device may keep, only with `auto`; 0: the number of "
     "pipeline devices",
     R"("micro_batches": 4, "schedule": "auto", "max_in_flight": 2)"},
    {"all_reduce",
     "Algorithm of reductions ([reshard](sharding.md#10-reshard)); `auto`: the cheapest",
     R"("all_reduce": "one-shot")"},
    {"collective_matmul",
     "Chunks of a matmul and the collective beside it "
     "([chunks](sharding.md#15-collective-matmul))",
     R"("collective_matmul": 4)"},
    {"prefetch_mib",
     "Memory of exchanges in flight before their turn; 0 disables "
     "[prefetch](runtime.md#prefetch)",
     R"("prefetch_mib": 64)"},
    {"bucket_mib", "Gradients that are reduced together during the backward; 0: each by itself",
     R"("bucket_mib": 0)"},
    {"halos", "Form of halos ([windows](sharding.md#7-windows)); `auto`: the cheaper",
     R"("halos": "exchange")"},
    {"disabled_passes",
     "Optional [passes of the compiler](architecture.md#compiler-passes) that do not run",
     R"("disabled_passes": ["buckets"])"},
    {"found", "Did a search find the plan? Then commands print no notes of its placements",
     R"("found": true)"},
    {"mapping",
     "Device of each rank on a cluster ([mapping](mapping.md)); another cluster takes rank i to "
     "device i",
     R"("mapping": {"cluster": "1xa100-80g", "devices": ["n0/0"]})"},
    {"mapping.cluster", "Name of the cluster, or the line that describes it",
     R"("mapping": {"cluster": "1xa100-80g", "devices": ["n0/0"]})"},
    {"mapping.devices", "By rank: a machine and the device in it",
     R"("mapping": {"cluster": "1xa100-80g", "devices": ["n0/0"]})"},
    {"cost",
     "Prices by which the compiler decides, a table with the keys of [cost files](#cost-files)",
     R"("cost": {"device": {"launch": "4 us"}})"},
    {"marks", "Annotations ([marks](plans.md#marks))",
     R"-("marks": [{"tensor": "*.weight", "placement": "P(\"tp\")"}])-"},
    {"marks[].tensor", "Name or pattern of values",
     R"-("marks": [{"tensor": "tokens", "placement": "P(\"dp\")"}])-"},
    {"marks[].op", "Name or pattern of ops", R"("marks": [{"op": "blocks.0.*", "mesh": "first"}])"},
    {"marks[].module", "Name or pattern of modules",
     R"("marks": [{"module": "blocks.0", "mesh": "first"}])"},
    {"marks[].placement", "How they are sharded; left out: open",
     R"-("marks": [{"tensor": "head.weight", "placement": "P(None, \"tp\")"}])-"},
    {"marks[].mesh", "The stage that they are on; left out: derived",
     R"("marks": [{"op": "head.*", "mesh": "last"}])"},
    {"marks[].copies", "Of tensors: how long a rank keeps a copy in another placement",
     R"("marks": [{"tensor": "*.weight", "copies": "pass"}])"},
    {"shardings",
     "The placement of every op and value, instead of `marks` ([explicit "
     "shardings](plans.md#explicit-shardings))",
     R"("shardings": {"train": {"ops": {"whole": ["y"]}}})"},
    {"shardings.PROGRAM",
     "Of `train`, and where they differ from it of `evaluate`, `predict`, `decode`, `accumulate`, "
     "`reduce` and `apply`",
     R"("shardings": {"train": {}, "evaluate": {"ops": {"whole": ["y"]}}})"},
    {"shardings.PROGRAM.stages",
     "By the name of a mesh the ops on it; only with several meshes. `blocks.0.*` stands for all "
     "ops with this beginning of which no longer one says something",
     R"("shardings": {"train": {"stages": {"first": ["blocks.0.*"], "last": ["*"]}}})"},
    {"shardings.PROGRAM.kept",
     "Ops that the passes over the serial graph keep, because marks named them",
     R"("shardings": {"train": {"kept": ["y"]}})"},
    {"shardings.PROGRAM.ops",
     "By the divided [factors](sharding.md#3-rules) with their axes every op, micro-batches (`mb`) "
     "included; `whole` for none; chunks and windows as in placements, `d1@tp/3`; `{sum 0, 1: tp}` "
     "where partial sums of inputs 0 and 1 pass through",
     R"("shardings": {"train": {"ops": {"m@mb@dp, k@tp": ["y"]}}})"},
    {"shardings.PROGRAM.values",
     "By the placement, with ` on MESH` when there are several meshes, every input and variable, "
     "and other values where they are kept otherwise than their op makes them",
     R"("shardings": {"train": {"values": {"[@mb@dp, *]": ["x"]}}})"},
    {"shardings.PROGRAM.copies", "Under `pass` the values whose copies live for a pass",
     R"("shardings": {"train": {"copies": {"pass": ["w"]}}})"},
    {"fingerprint",
     "The model that the plan was made for, written by the program; another model is refused",
     R"("fingerprint": {"graph": "00c0ffee00c0ffee", "version": "0.1.0"})"},
    {"fingerprint.graph", "Hash of the serial graph", R"("fingerprint": {"graph": "00c0ffee"})"},
    {"fingerprint.version", "Version of the program", R"("fingerprint": {"version": "0.1.0"})"},
    {"fingerprint.parameters", "The types of the parameters, by patterns of names",
     R"("fingerprint": {"parameters": {"head.weight": "f32[8,4]"}})"},
    {"fingerprint.rewritten",
     "The graph after the [passes over the serial "
     "graph](architecture.md#passes-over-the-serial-graph); of other passes `explain` notes it",
     R"("fingerprint": {"rewritten": {"graph": "00c0ffee", "passes": ["fold"]}})"},
    {"fingerprint.rewritten.graph", "Its hash",
     R"("fingerprint": {"rewritten": {"graph": "00c0ffee"}})"},
    {"fingerprint.rewritten.passes", "The names of these passes",
     R"("fingerprint": {"rewritten": {"passes": ["fold"]}})"},
};

constexpr KeyMeaning kCostMeanings[] = {
    {"device.arithmetic", "Operations of a kernel", "device.arithmetic = \"20 Tflop/s\""},
    {"device.memory", "Bytes that a kernel reads and writes", "device.memory = \"1.5 TB/s\""},
    {"device.copies", "Bytes of whole blocks that are copied: chunks of tensors, received data",
     "device.copies = \"1.3 TB/s\""},
    {"device.file",
     "Bytes between the memory and a file, in each direction, of [offloaded](passes.md#offload) "
     "state",
     "device.file = \"6 GB/s\""},
    {"device.launch", "What each kernel takes beside its work", "device.launch = \"4 us\""},
    {"device.launch_factor", "Multiplies every launch, as `tessera calibrate` fits it",
     "device.launch_factor = 1.2"},
    {"device.fused",
     "The part of the time of an element-wise kernel that is left where the runtime joins it with "
     "its neighbours, for searches; a `runtime` sets it",
     "device.fused = 0.2"},
    {"device.CLASS",
     "The kernels of one class: `matmul`, `convolution`, `attention`, `elementwise`, `reduction`, "
     "`gather` or `movement`; what is left out is as for the device",
     "device.gather = {memory = \"200 GB/s\"}"},
    {"device.CLASS.arithmetic", "Operations of a kernel of the class",
     "device.matmul = {arithmetic = \"120 Tflop/s\"}"},
    {"device.CLASS.memory", "Bytes that it reads and writes",
     "device.matmul = {memory = \"1 TB/s\"}"},
    {"device.CLASS.launch", "What each kernel of the class takes beside its work",
     "device.gather = {launch = \"5 us\"}"},
    {"device.CLASS.efficiency",
     "The part of the arithmetic rates that a kernel reaches whose pieces have n operations; "
     "between two sizes it is interpolated",
     "device.matmul = {efficiency = {\"1 Gflop\" = \"30 %\", \"1 Tflop\" = \"80 %\"}}"},
    {"device.CLASS.memory_at",
     "Instead of `memory`, the rate of a kernel whose pieces (products of a batched matmul, rows, "
     "runs of a copy) read and write n bytes",
     "device.elementwise = {memory_at = {\"64 kB\" = \"90 GB/s\", \"1 GB\" = \"9 GB/s\"}}"},
    {"device.CLASS.row_efficiency",
     "Instead of `efficiency`, of a kernel whose innermost loop runs over a row of pixels, such as "
     "a convolution on a CPU: the part of the arithmetic rates that it reaches whose rows, with "
     "one "
     "element of the window and 16 x 16 channels, have n operations",
     "device.convolution = {row_efficiency = {\"1 kflop\" = \"30 %\", \"8 kflop\" = \"80 %\"}}"},
    {"device.CLASS.copies",
     "Instead of `memory`, bytes of the operands that such a kernel copies into layouts of its "
     "own, "
     "before and after its arithmetic",
     "device.convolution = {copies = \"10 GB/s\"}"},
    {"device.CLASS.half_extent",
     "Of a product of matrices: the smallest of its rows, its columns and what is summed over with "
     "which it reaches half of its rate; one of n reaches n / (n + half_extent)",
     "device.matmul = {half_extent = 100}"},
    {"device.CLASS.time_factor",
     "Multiplies the time of its kernels beside the launch, as `tessera calibrate` fits it",
     "device.matmul = {time_factor = 1.1}"},
    {"device.CLASS.TYPE",
     "Its operations on elements of a type, such as `f32`, `bf16` or `i8`; left out: as those of "
     "the class",
     "device.matmul = {bf16 = \"240 Tflop/s\"}"},
    {"device.kernels",
     "By the name of a kernel, rates of its own, with the keys of a class; what is left out is as "
     "for its class",
     "device.kernels = {\"unary.exp\" = {memory = \"30 GB/s\"}}"},
    {"device.kernels.KERNEL.arithmetic", "As of a class",
     "device.kernels.sort = {arithmetic = \"1 Gflop/s\"}"},
    {"device.kernels.KERNEL.memory", "As of a class",
     "device.kernels.sort = {memory = \"1 GB/s\"}"},
    {"device.kernels.KERNEL.launch", "As of a class", "device.kernels.sort = {launch = \"5 us\"}"},
    {"device.kernels.KERNEL.efficiency", "As of a class",
     "device.kernels.sort = {efficiency = {\"1 kflop\" = \"30 %\"}}"},
    {"device.kernels.KERNEL.memory_at", "As of a class",
     "device.kernels.sort = {memory_at = {\"64 kB\" = \"9 GB/s\"}}"},
    {"device.kernels.KERNEL.row_efficiency", "As of a class",
     "device.kernels.convolution = {row_efficiency = {\"1 kflop\" = \"30 %\"}}"},
    {"device.kernels.KERNEL.copies", "As of a class",
     "device.kernels.convolution = {copies = \"10 GB/s\"}"},
    {"device.kernels.KERNEL.half_extent", "As of a class",
     "device.kernels.sort = {half_extent = 100}"},
    {"device.kernels.KERNEL.time_factor", "As of a class, beside it",
     "device.kernels.sort = {time_factor = 1.1}"},
    {"device.kernels.KERNEL.TYPE", "As of a class", "device.kernels.sort = {f32 = \"1 Gflop/s\"}"},
    {"links.latency", "Of a message between any two ranks", "links.latency = \"10 us\""},
    {"links.bandwidth", "Bytes that a rank receives or sends", "links.bandwidth = \"230 GB/s\""},
    {"links.start", "Of an exchange, once, beside the latencies", "links.start = \"40 us\""},
    {"links.axes",
     "By the name of a mesh axis, links between ranks of a mesh that differ on it; where they "
     "differ on several, the slowest counts",
     "links.axes = {node = {latency = \"20 us\", bandwidth = \"200 Gb/s\"}}"},
    {"links.axes.AXIS.latency", "As `links.latency`, which it has when it is left out",
     "links.axes.node.latency = \"20 us\""},
    {"links.axes.AXIS.bandwidth", "As `links.bandwidth`, which it has when it is left out",
     "links.axes.node.bandwidth = \"200 Gb/s\""},
    {"links.axes.AXIS.start", "As `links.start`, which it has when it is left out",
     "links.axes.node.start = \"40 us\""},
    {"links.levels",
     "By the name of a mesh axis, the levels of links that its ranks span, outermost first, each "
     "with the name of its axis in `links.axes` and its size",
     "links.levels = {dp = [\"dp_ib:2\", \"dp_nvlink:8\"]}"},
    {"links.pairs", "Links between two ranks, in both directions, instead of those of an axis",
     "links.pairs = [{ranks = [0, 1], bandwidth = \"50 GB/s\"}]"},
    {"links.pairs[].ranks", "The two ranks", "links.pairs = [{ranks = [2, 3]}]"},
    {"links.pairs[].latency", "As `links.latency`, which it has when it is left out",
     "links.pairs = [{ranks = [0, 1], latency = \"2 us\"}]"},
    {"links.pairs[].bandwidth", "As `links.bandwidth`, which it has when it is left out",
     "links.pairs = [{ranks = [0, 1], bandwidth = \"40 GB/s\"}]"},
    {"links.pairs[].start", "As `links.start`, which it has when it is left out",
     "links.pairs = [{ranks = [0, 1], start = \"40 us\"}]"},
    {"copies.host_to_device.latency", "Of a copy to a device; no decision uses it yet",
     "copies.host_to_device.latency = \"10 us\""},
    {"copies.host_to_device.bandwidth", "Bytes of such a copy; no decision uses it yet",
     "copies.host_to_device.bandwidth = \"20 GB/s\""},
    {"copies.host_to_device.start", "Of such a copy; no decision uses it yet",
     "copies.host_to_device.start = \"20 us\""},
    {"copies.device_to_host.latency", "Of a copy from a device; no decision uses it yet",
     "copies.device_to_host.latency = \"10 us\""},
    {"copies.device_to_host.bandwidth", "Bytes of such a copy; no decision uses it yet",
     "copies.device_to_host.bandwidth = \"20 GB/s\""},
    {"copies.device_to_host.start", "Of such a copy; no decision uses it yet",
     "copies.device_to_host.start = \"20 us\""},
    {"pipeline.transfer",
     "From the end of a pass to the start of the pass of another stage that needs it, as a part of "
     "a micro-batch on the busiest device",
     "pipeline.transfer = \"2 %\""},
    {"cluster", "Fingerprint of the cluster whose prices these are, as `inspect --json` has it",
     "cluster = \"00c0ffee00c0ffee\""},
};

constexpr KeyMeaning kClusterMeanings[] = {
    {"name", "For readers", "name = \"two racks\""},
    {"device", "Types of devices by their names; a preset needs no description",
     "device.core = {kind = \"cpu\", memory = \"2 GB\"}"},
    {"device.NAME.preset", "A known device, from which all comes that is not given",
     "device.a100 = {preset = \"a100-80g\"}"},
    {"device.NAME.kind", "What it is; the cores of a machine are `cpu` devices",
     "device.core = {kind = \"cpu\"}"},
    {"device.NAME.memory", "Its memory; left out: that of the preset",
     "device.a100 = {memory = \"80 GB\"}"},
    {"device.NAME.reserve", "What the runtime and libraries take of it",
     "device.a100 = {reserve = \"1 GB\"}"},
    {"device.NAME.rates", "Its speed: the keys of `[device]` of a [cost file](#cost-files)",
     "device.a100 = {rates = {launch = \"4 us\", matmul = {bf16 = \"250 Tflop/s\"}}}"},
    {"device.NAME.peaks",
     "Dense flop/s of its data sheet by element type, for MFU and HFU alone; left out: the rates "
     "of large matmuls",
     "device.a100 = {peaks = {f32 = \"19.5 Tflop/s\", bf16 = \"312 Tflop/s\"}}"},
    {"device.NAME.sustained",
     "The part of its rates of products that it keeps in a long run, with the kernels of runtimes "
     "other than ours",
     "device.a100 = {sustained = 0.9}"},
    {"device.NAME.source", "Where the figures come from, for readers",
     "device.a100 = {source = \"data sheet\"}"},
    {"runtime", "Whose software runs on it: a [profile](costs.md#runtimes)",
     "runtime = {profile = \"megatron\"}"},
    {"runtime.profile",
     "The profile that gives what is left out; defaults here are those of `megatron`",
     "runtime = {profile = \"torch-eager\"}"},
    {"runtime.fusion",
     "Which steps are one kernel: none, those of a layer, or all neighbours without a product "
     "between them",
     "runtime = {fusion = \"layers\"}"},
    {"runtime.attention",
     "Does attention keep its scores in memory, or compute them block by block?",
     "runtime = {attention = \"blocked\"}"},
    {"runtime.score_passes",
     "With `scores`: how often a forward reads or writes all of them; a backward does so half as "
     "often again",
     "runtime = {score_passes = 6.5}"},
    {"runtime.host", "Of the host for each kernel, beside the device",
     "runtime = {host = \"20 us\"}"},
    {"runtime.gap", "Between two kernels on the device", "runtime = {gap = \"2 us\"}"},
    {"runtime.constant", "Of each step beside its kernels and exchanges",
     "runtime = {constant = \"5 ms\"}"},
    {"runtime.overlaps", "Do exchanges that nothing waits for run beside kernels?",
     "runtime = {overlaps = true}"},
    {"runtime.libraries",
     "Memory of a device that communicators and libraries take; 0: its `reserve`",
     "runtime = {libraries = \"4 GB\"}"},
    {"runtime.margin", "What the allocator holds beyond what is live, as a part of it",
     "runtime = {margin = 0.06}"},
    {"runtime.low",
     "Eight of ten measured steps take at least this part of their prediction; 0: not known",
     "runtime = {low = 0.9}"},
    {"runtime.high", "And at most this part", "runtime = {high = 1.1}"},
    {"runtime.source", "Where the figures come from, for readers",
     "runtime = {source = \"fitted to our runs\"}"},
    {"runtime.reach.products", "Of products", "runtime = {reach = {products = 0.9}}"},
    {"runtime.reach.half_extent", "`half_extent` of products; 0: that of the device",
     "runtime = {reach = {half_extent = 100}}"},
    {"runtime.reach.attention", "Of products, by attention that is `blocked`",
     "runtime = {reach = {attention = 0.3}}"},
    {"runtime.reach.memory", "Of memory", "runtime = {reach = {memory = 0.9}}"},
    {"runtime.reach.inside.bandwidth", "Of their bandwidth",
     "runtime = {reach = {inside = {bandwidth = 0.8}}}"},
    {"runtime.reach.inside.start", "Of an exchange; with `hop` 0: both are as in the cluster",
     "runtime = {reach = {inside = {start = \"20 us\", hop = \"3 us\"}}}"},
    {"runtime.reach.inside.hop", "For each rank that sends",
     "runtime = {reach = {inside = {start = \"20 us\", hop = \"3 us\"}}}"},
    {"runtime.reach.network.bandwidth", "Of their bandwidth",
     "runtime = {reach = {network = {bandwidth = 0.6}}}"},
    {"runtime.reach.network.start", "As inside of machines",
     "runtime = {reach = {network = {start = \"50 us\", hop = \"9 us\"}}}"},
    {"runtime.reach.network.hop", "As inside of machines",
     "runtime = {reach = {network = {start = \"50 us\", hop = \"9 us\"}}}"},
    {"machine", "Groups of identical machines", "machine = [{count = 2, device = \"a100-80g\"}]"},
    {"machine[].names", "Their names, as `n[0-3,7],m`; or `count`",
     "machine = [{names = \"n[0-3]\", device = \"a100-80g\"}]"},
    {"machine[].count", "How many there are, if they have no names",
     "machine = [{count = 4, device = \"a100-80g\"}]"},
    {"machine[].device", "The type of their devices", "machine = [{count = 1, device = \"v100\"}]"},
    {"machine[].devices", "Devices of a machine",
     "machine = [{count = 1, device = \"v100\", devices = 8}]"},
    {"machine[].import",
     "Instead of `devices`, `links` and `direct`: a file of `nvidia-smi topo -m` or of NCCL that "
     "has "
     "them, beside this file",
     "machine = [{count = 1, device = \"a100\", import = \"topo.txt\"}]"},
    {"machine[].cores", "Cores that its `cpu` devices share; 0: one each",
     "machine = [{count = 1, device = \"cpu\", cores = 2}]"},
    {"machine[].links", "Levels of links inside the machine, from the inside out",
     "machine = [{count = 1, device = \"v100\", links = [{name = \"pcie\", bandwidth = \"12 "
     "GB/s\"}]}]"},
    {"machine[].links[].name", "For reports",
     "machine = [{count = 1, links = [{name = \"pcie\", bandwidth = \"12 GB/s\"}]}]"},
    {"machine[].links[].size", "Neighbours that a group joins; 0: all",
     "machine = [{count = 1, links = [{name = \"pair\", bandwidth = \"12 GB/s\", size = 2}]}]"},
    {"machine[].links[].latency", "Of a message between two neighbours",
     "machine = [{count = 1, links = [{name = \"pcie\", bandwidth = \"12 GB/s\", latency = \"9 "
     "us\"}]}]"},
    {"machine[].links[].bandwidth", "Of one port in one direction",
     "machine = [{count = 1, links = [{name = \"pcie\", bandwidth = \"12 GB/s\"}]}]"},
    {"machine[].links[].start", "Of an exchange over them, once, beside the latencies",
     "machine = [{count = 1, links = [{name = \"nvlink\", bandwidth = \"300 GB/s\", start = \"40 "
     "us\"}]}]"},
    {"machine[].links[].sharing",
     "`switch`: each neighbour has ports of its own; `bus`: all share one bandwidth; `mesh`: each "
     "two have a link of their own",
     "machine = [{count = 1, links = [{name = \"pcie\", bandwidth = \"12 GB/s\", sharing = "
     "\"bus\"}]}]"},
    {"machine[].links[].ports", "Ports of a neighbour",
     "machine = [{count = 1, links = [{name = \"nvlink\", bandwidth = \"25 GB/s\", ports = 6}]}]"},
    {"machine[].direct", "Links between two devices of the machine, instead of their path",
     "machine = [{count = 1, direct = [{devices = [0, 3], bandwidth = \"50 GB/s\"}]}]"},
    {"machine[].direct[].devices", "Their numbers in the machine",
     "machine = [{count = 1, direct = [{devices = [0, 3], bandwidth = \"50 GB/s\"}]}]"},
    {"machine[].direct[].latency", "Of a message over it",
     "machine = [{count = 1, direct = [{devices = [0, 3], bandwidth = \"50 GB/s\", latency = \"3 "
     "us\"}]}]"},
    {"machine[].direct[].bandwidth", "Its bytes in one direction",
     "machine = [{count = 1, direct = [{devices = [0, 3], bandwidth = \"50 GB/s\"}]}]"},
    {"machine[].direct[].start", "Of an exchange over it, once, beside the latencies",
     "machine = [{count = 1, direct = [{devices = [0, 3], bandwidth = \"50 GB/s\", start = \"40 "
     "us\"}]}]"},
    {"machine[].network.bandwidth",
     "Of a port of the machine into the network in one direction, where it is another than "
     "`network` "
     "says",
     "machine = [{count = 1, device = \"rtx3090\", network = {bandwidth = \"1 Gb/s\"}}]"},
    {"machine[].network.ports", "How many there are",
     "machine = [{count = 1, device = \"v100\", network = {bandwidth = \"25 Gb/s\", ports = 2}}]"},
    {"network", "Levels of the network between machines, from the inside out",
     "network = [{name = \"ib\", bandwidth = \"25 GB/s\"}]"},
    {"network[].name", "For reports", "network = [{name = \"ib\", bandwidth = \"25 GB/s\"}]"},
    {"network[].size", "Machines, or switches of the level below, of one switch; 0: all",
     "network = [{name = \"ib\", bandwidth = \"25 GB/s\", size = 4}]"},
    {"network[].switches", "Instead of `size`, the names of the machines below each switch",
     "machine = [{names = \"n[0-1]\", device = \"v100\"}]\nnetwork = [{name = \"ib\", bandwidth = "
     "\"25 GB/s\", switches = [\"n[0-1]\"]}]"},
    {"network[].import",
     "Instead of `size` and `switches`, a topology.conf of Slurm with all levels of switches, "
     "beside this file; the "
     "`bandwidth` is that of the lowest level, the `oversubscription`, 1 unless it is given, of "
     "the "
     "others",
     "machine = [{names = \"n[0-1]\", device = \"v100\"}]\nnetwork = [{name = \"ib\", bandwidth = "
     "\"25 GB/s\", import = \"topology.conf\"}]"},
    {"network[].latency", "Of a message over this level",
     "network = [{name = \"ib\", bandwidth = \"25 GB/s\", latency = \"8 us\"}]"},
    {"network[].bandwidth", "Of one port in one direction; or `oversubscription`",
     "network = [{name = \"ib\", bandwidth = \"25 GB/s\"}]"},
    {"network[].start", "Of an exchange over this level, once, beside the latencies",
     "network = [{name = \"ib\", bandwidth = \"25 GB/s\", start = \"60 us\"}]"},
    {"network[].sharing", "As of `machine[].links`",
     "network = [{name = \"lan\", bandwidth = \"1 GB/s\", sharing = \"bus\"}]"},
    {"network[].ports", "Ports of a machine, or of a switch of the level below",
     "network = [{name = \"ib\", bandwidth = \"25 GB/s\", ports = 8}]"},
    {"network[].oversubscription",
     "Above another level: times that the machines below a switch can send more together than its "
     "links upwards carry; 0: there is a bandwidth",
     "network = [{name = \"spine\", oversubscription = 2}]"},
    {"link", "Direct links between devices of different machines",
     "machine = [{count = 2, device = \"v100\"}]\nlink = [{between = [\"n0/0\", \"n1/0\"], "
     "bandwidth = \"1 GB/s\"}]"},
    {"link[].between", "The names of the two devices: the machine and the number in it",
     "machine = [{count = 2, device = \"v100\"}]\nlink = [{between = [\"n0/0\", \"n1/0\"], "
     "bandwidth = \"1 GB/s\"}]"},
    {"link[].latency", "Of a message over it",
     "machine = [{count = 2, device = \"v100\"}]\nlink = [{between = [\"n0/0\", \"n1/0\"], "
     "bandwidth = \"1 GB/s\", latency = \"9 us\"}]"},
    {"link[].bandwidth", "Its bytes in one direction",
     "machine = [{count = 2, device = \"v100\"}]\nlink = [{between = [\"n0/0\", \"n1/0\"], "
     "bandwidth = \"1 GB/s\"}]"},
    {"link[].start", "Of an exchange over it, once, beside the latencies",
     "machine = [{count = 2, device = \"v100\"}]\nlink = [{between = [\"n0/0\", \"n1/0\"], "
     "bandwidth = \"1 GB/s\", start = \"60 us\"}]"},
    {"sources",
     "Where values come from, for readers: by the place of a value in this file, or of a table "
     "with "
     "all values in it that have no entry of their own",
     "name = \"lab\"\nsources = {name = \"the operating system\"}"},
    {"assumed", "What is assumed and not known, for readers",
     "assumed = [\"an NVLink has 25 GB/s\"]"},
};

Document parse_toml_example(std::string_view example) {
  return parse_toml(example, "the example");
}

std::vector<ReadKey> keys_of_preset(const Document& document) {
  std::vector<ReadKey> keys;
  parse_preset(document, "the example", &keys);
  return keys;
}

Document parse_plan_example(std::string_view example) {
  return parse_json("{" + std::string(example) + "}", "the example");
}

std::vector<ReadKey> keys_of_plan(const Document& document) {
  std::vector<ReadKey> keys;
  parse_plan(document, "the example", {.keys = &keys});
  return keys;
}

std::vector<ReadKey> keys_of_costs(const Document& document) {
  std::vector<ReadKey> keys;
  parse_cost_model(document, "", "the example", &keys);
  return keys;
}

/// The files that the examples import.
std::string imported_example(const std::filesystem::path& file) {
  return file.extension() == ".conf" ? "SwitchName=s0 Nodes=n[0-1]\n"
                                     : "     GPU0 GPU1\nGPU0  X   NV12\nGPU1 NV12  X\n";
}

std::vector<ReadKey> keys_of_cluster(const Document& document) {
  std::vector<ReadKey> keys;
  parse_cluster_description(document, "the example", {.keys = &keys, .imported = imported_example});
  return keys;
}

constexpr std::array kFileReferences{
    FileReference{"Presets",
                  "Degrees of parallelism in place of meshes and marks, in `[parallel]` or after "
                  "`--plan`\n([presets](plans.md#presets)). `\"rest\"` is what the number of ranks "
                  "leaves. The other keys are\nthose of plan files except `mesh`, `meshes`, "
                  "`shardings` and `fingerprint`.",
                  kPresetMeanings, parse_toml_example, keys_of_preset},
    FileReference{"Plan files",
                  "JSON with comments; in `[parallel]` the same keys as TOML. [plans.md](plans.md) "
                  "explains plans.",
                  kPlanMeanings, parse_plan_example, keys_of_plan},
    FileReference{"Cost files",
                  "TOML, or JSON in a file whose name ends with `.json`. Every quantity is a text "
                  "of a number and its\nunit. [costs.md](costs.md) explains the cost model.",
                  kCostMeanings, parse_toml_example, keys_of_costs},
    FileReference{"Cluster files",
                  "TOML, or JSON in a file whose name ends with `.json`. Every quantity is a text "
                  "of a number and its\nunit. [cluster.md](cluster.md) explains clusters.",
                  kClusterMeanings, parse_toml_example, keys_of_cluster},
};

}  // namespace

std::span<const FileReference> file_references() {
  return kFileReferences;
}

std::vector<ReadKey> keys_of(const FileReference& reference) {
  std::vector<ReadKey> keys;
  for (const KeyMeaning& meaning : reference.meanings)
    for (ReadKey& key : reference.keys_of(reference.parse_example(meaning.example))) {
      const auto known = std::ranges::find(keys, key.name, &ReadKey::name);
      if (known == keys.end()) keys.push_back(std::move(key));
    }
  return keys;
}

}  // namespace tessera
