// Cases that once failed, in the smallest form that `tessera fuzz` printed. Each was a fault of the
// compiler or of its oracle.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

struct FailedOnce {
  const char* name;
  const char* text;
};
void PrintTo(const FailedOnce& given, std::ostream* stream) {
  *stream << given.name;
}

// clang-format off
const FailedOnce kFailedOnce[] = {
{"TwoVariablesTradePlaces", R"(seed 12
steps 2
mesh all x=2 at 0
mark tensor w P("x")
graph
variable w: f32[3] = uniform(-1.0, 1.0)
variable v: f32[3] = normal(0.0, 0.5)
next w = v
next v = w
)"},

{"AValueHasTwoOutputNames", R"(seed 17
steps 1
mesh all x=2 at 0
graph
input x: f32[3]
y = tanh(x): f32[3]
output a = y
output b = y
)"},

{"NothingIsComputedAndAnInputIsNotRead", R"(seed 5
steps 1
mesh all x=2 at 0
graph
input x: f32[3]
input z: f32[3]
output y = x
)"},

{"TheOldValueIsHandedOut", R"(seed 24
steps 2
mesh all x=2 at 0
mark tensor w P("x")
graph
variable w: f32[5] = uniform(-1.0, 1.0)
y = tanh(w): f32[5]
output old = w
next w = y
)"},

{"AVariableTakesTheOldValueOfAnother", R"(seed 163
steps 2
mesh all x=2 at 0
graph
variable w: f32[5] = uniform(-1.0, 1.0)
variable v: f32[5] = constant(0.0)
y = tanh(w): f32[5]
next w = y
next v = w
)"},

{"AMarkMakesAddendsOfAWholeTensor", R"(seed 2
steps 1
mesh all x=2 y=3 at 0
mark op y [y: Partial(sum), P()]
graph
input a: f32[4]
input b: f32[4]
y = mul(a, b): f32[4]
output y = y
)"},

{"ACollectiveMatmulCutsADimThatASumLeavesWithChunks", R"(seed 309311
mode exact
steps 1
chunks 3
mesh all x=2 y=1 z=2 at 0
fill e whole -6.0 -6.0
fill d whole 0.0 0.0
fill p whole 1.0 1.0
fill c whole 0.0 0.0
fill g whole 2.0 2.0
fill w whole -3.0 3.0
mark tensor w P(None, ?, ("z","x","y"))
mark tensor c P("z", ?, 2*"x", "y")
graph
input g: f32[4,4,4,3]
input p: bool[4,4,4,3]
input c: f32[4,4,4,3]
input d: f32[4,4,4,3]
input e: f32[4,4,4,3]
variable w: f32[4,4,4] = constant(0.0)
variable w_1: f32[4,3,4] = constant(1.0)
dot_general = dot_general(w, w_1) {spec="abc,dec->abde"}: f32[4,4,4,3]
max_scalar = max_scalar(dot_general) {value=-6.0}: f32[4,4,4,3]
u = select(p, g, c): f32[4,4,4,3] @backward
q = compare(dot_general, e) {relation="ge"}: bool[4,4,4,3] @backward
t = select(q, u, d): f32[4,4,4,3] @backward
)"},
{"ADimInChunksIsEmpty", R"(seed 415920
mode general
steps 1
mesh all x=1 at 0
fill square whole 0.0 0.0
mark tensor w P(?, 2*"x")
graph
input square: f32[6,0]
variable w: f32[6,0] = constant(0.0)
distance = sub(square, w): f32[6,0] @optimizer
)"},

{"ACopyIntoAVariableOfADeviceWritesOverWhatAKernelReads", R"(seed 82335
mode exact
steps 2
micro_batches 3
mesh all x=1 y=1 at 0 on fake
fill in_2 whole -3.0 3.0
fill kept whole -3.0 3.0
fill w_1 whole -3.0 6.0
mark tensor kept P(None, None, "y")
graph
input in_2: f32[3,6,3]
variable kept: f32[7,6,2] = constant(0.0) state
variable w_1: i32[7,6,2] = constant(0.0) state
scatter_add_along_dim = scatter_add_along_dim(w_1, kept) {dim=2, extent=2}: f32[7,6,2]
reduce = reduce(kept) {dims=[0, 1], op="min"}: f32[2]
convolution = convolution(scatter_add_along_dim, in_2) {dilation=[1], groups=1, high=[0], low=[1],
    stride=[3]}: f32[7,3,1]
next kept = scatter_add_along_dim
)"},

{"AStageWithoutTheAxisKeepsAVariable", R"(seed 816
steps 2
mesh first x=2 at 0
mesh last x=2 y=2 at 0
stage op kept first
stage op y last
mark tensor y P(("y","x"))
graph
variable w: f32[5] = uniform(-1.0, 1.0)
kept = neg(w): f32[5]
y = tanh(kept): f32[5]
next w = y
)"},

{"AVariableFollowsTheMicroBatches", R"(seed 5
steps 1
micro_batches 2
mesh all x=1 at 0
graph
input x: f32[4]
variable w: f32[4] = normal(0.0, 0.5)
next w = x
)"},

{"MicroBatchesDoNotDivideAReshape", R"(seed 649
steps 1
micro_batches 3
mesh all x=1 at 0
mark tensor x P("x")
graph
input x: i32[6]
y = reshape(x) {shape=[2, 3]}: i32[2,3]
)"},

{"AnOpMeetsMicroBatchesOfTwoDims", R"(seed 651
steps 1
micro_batches 3
mesh all x=1 at 0
graph
input x: f32[6,6]
y = dot_general(x, x) {spec="ab,ba->"}: f32[]
)"},

{"StagesInACircle", R"(seed 2232
steps 1
micro_batches 2
mesh first x=1 at 0
mesh last x=1 at 1
stage op a first
stage op b last
stage op c first
stage op d last
graph
input x: f32[4]
a = neg(x): f32[4]
b = neg(a): f32[4]
c = neg(b): f32[4]
d = neg(c): f32[4]
)"},

{"ACopyOfAVariableHasTheNameOfAnotherValue", R"(seed 3722
steps 2
mesh all x=1 at 0
graph
input a: f32[]
input w.m.next: f32[]
variable w: f32[] = normal(0.0, 0.5)
variable w.m: f32[] = constant(0.0)
next w = w.m.next
next w.m = a
)"},

{"TheOldValueIsHandedOutByALaterStage", R"(seed 294
steps 2
mesh first x=1 at 0
mesh last x=1 at 1
stage tensor w last
graph
input x: f32[]
variable w: f32[] = normal(0.0, 0.5)
output old = w
next w = x
)"},

{"AddendsMayBeLargerThanTheirSum", R"(seed 1084787
mode general
steps 1
mesh all x=1 y=3 at 0
fill in_1 whole -3.0 3.0
fill tanh.grad.x real 0.01736111124046147 0.01736111124046147
mark op dot_general.grad.b [P("y", None), P(None, "x", "y", None)]
mark op gather_1.grad.sum [y: Partial(sum), y: Partial(sum)]
graph
input in_1: f32[4,3]
input tanh.grad.x: f32[3,6,4,4]
dot_general.grad.b = dot_general(in_1, tanh.grad.x) {spec="ab,bdac->cd"}: f32[4,6] @backward <-
    gradient dot_general
sub_1.grad.b = neg(dot_general.grad.b): f32[4,6] @backward <- gradient sub_1
gather_1.grad.sum = add(dot_general.grad.b, sub_1.grad.b): f32[4,6] @backward <- gradient sum
    gather_1
)"},

{"AMinimumOverRanksIsNotRounded", R"(seed 3002115
mode general
steps 1
mesh last x=1 y=1 at 0
fill broadcast real -0.645005464553833 -0.645005464553833
fill mul_scalar.grad.x real 2.8912058794593256e-19 2.8912058794593256e-19
fill pad real 0.0 0.6711405318321937
fill reduce.grad.constant whole 0.0 0.0
fill reduce.grad.count whole 1.0 1.0
fill reduce_1.grad.x real 0.1666666716337204 0.1666666716337204
mark tensor w P("x")
graph
input pad: f32[3,2,1,1]
input mul_scalar.grad.x: f32[]
input broadcast: f32[3,4,1,1]
input reduce.grad.constant: f32[2]
input reduce.grad.count: f32[]
input reduce_1.grad.x: f32[3,2,1,1]
variable w: f32[2] = uniform(-1.0, 1.0)
variable w_3: f32[3,4,1,1] = uniform(-1.0, 1.0)
reduce = reduce(w) {dims=[0], op="min"}: f32[]
attention = attention(pad, broadcast, w_3) {causal=false, scale=0.5}: f32[3,2,1,1], f32[3,1,2]
attention.grad.qkv = attention_grad(pad, broadcast, w_3, attention, attention:1, reduce_1.grad.x)
    {causal=false, scale=0.5}: f32[3,2,1,1], f32[3,4,1,1], f32[3,4,1,1] @backward <- gradient
    attention
broadcast.grad.sum = reduce(attention.grad.qkv:1) {dims=[0, 1], op="sum"}: f32[1,1] @backward <-
    gradient broadcast
broadcast.grad.x = reshape(broadcast.grad.sum) {shape=[1, 1, 1, 1]}: f32[1,1,1,1] @backward <-
    gradient broadcast
reshape_1.grad.x = reshape(broadcast.grad.x) {shape=[]}: f32[] @backward <- gradient reshape_1
reduce.grad.sum = add(mul_scalar.grad.x, reshape_1.grad.x): f32[] @backward <- gradient sum reduce
reduce.grad.broadcast = broadcast(reduce) {dims=[], shape=[2]}: f32[2] @backward <- gradient reduce
reduce.grad.compare = compare(w, reduce.grad.broadcast) {relation="eq"}: bool[2] @backward <-
    gradient reduce
reduce.grad.share = div(reduce.grad.sum, reduce.grad.count): f32[] @backward <- gradient reduce
reduce.grad.broadcast_1 = broadcast(reduce.grad.share) {dims=[], shape=[2]}: f32[2] @backward <-
    gradient reduce
reduce.grad.x = select(reduce.grad.compare, reduce.grad.broadcast_1, reduce.grad.constant): f32[2]
    @backward <- gradient reduce
)"},

{"WhatIsBroadcastIsRoundedAlike", R"(seed 3010839
mode general
steps 1
mesh last x=2 at 2
fill add real -1.9038329124450684 1.6759896278381348
fill add_scalar_1 real 0.5000235690666983 1.4977465464430821
fill broadcast real -0.6143926382064819 0.9306474924087524
fill broadcast_1 real -0.9820421934127808 0.9115902185440063
fill in_2 real -1.0 1.0
fill reduce.grad.broadcast_1 real 0.02222222276031971 0.02222222276031971
fill reduce.grad.constant whole 0.0 0.0
mark tensor add_scalar_1 P("x", None, None, None)
graph
input in_2: f32[3,5,3,3]
input add_scalar_1: f32[3,5,3,3]
input broadcast: f32[3,3,3,3]
input broadcast_1: f32[3,3,3,3]
input reduce.grad.constant: f32[3,5,3,3]
input reduce.grad.broadcast_1: f32[3,5,3,3]
input add: f32[3,5,3,3]
attention = attention(in_2, broadcast, broadcast_1) {causal=true, scale=0.5}: f32[3,5,3,3],
    f32[3,3,5]
mul = mul(attention, add): f32[3,5,3,3]
reduce = reduce(attention) {dims=[0], op="max"}: f32[5,3,3]
div = div(add, add_scalar_1): f32[3,5,3,3]
reduce.grad.broadcast = broadcast(reduce) {dims=[1, 2, 3], shape=[3, 5, 3, 3]}: f32[3,5,3,3]
    @backward <- gradient reduce
reduce.grad.compare = compare(attention, reduce.grad.broadcast) {relation="eq"}: bool[3,5,3,3]
    @backward <- gradient reduce
reduce.grad.x = select(reduce.grad.compare, reduce.grad.broadcast_1, reduce.grad.constant):
    f32[3,5,3,3] @backward <- gradient reduce
attention.grad.qkv = attention_grad(in_2, broadcast, broadcast_1, attention, attention:1,
    reduce.grad.x) {causal=true, scale=0.5}: f32[3,5,3,3], f32[3,3,3,3], f32[3,3,3,3] @backward <-
    gradient attention
broadcast.grad.sum = reduce(attention.grad.qkv:1) {dims=[0, 1, 2], op="sum"}: f32[3] @backward <-
    gradient broadcast
)"},

{"RoundingMakesTwoMinimaEqual", R"(seed 3041219
mode general
steps 1
mesh first x=1 at 0
fill broadcast_1 whole -3.0 0.0
fill broadcast_2 real 0.3208162486553192 1.664340615272522
fill pad_1 real -0.6128023862838745 0.0
fill reduce_1.grad.broadcast_1 real 0.1666666716337204 0.1666666716337204
fill reduce_1.grad.constant whole 0.0 0.0
mark op reduce_1.grad.broadcast [x: Partial(sum)]
graph
input broadcast_2: f32[3,4,1,3]
input broadcast_1: f32[3,2,1,3]
input pad_1: f32[1,1,1,3]
input reduce_1.grad.constant: f32[3,2,1,3]
input reduce_1.grad.broadcast_1: f32[3,2,1,3]
broadcast_3 = broadcast(pad_1) {dims=[0, 1, 2, 3], shape=[3, 4, 1, 3]}: f32[3,4,1,3]
attention = attention(broadcast_1, broadcast_2, broadcast_3) {causal=false, scale=0.5}:
    f32[3,2,1,3], f32[3,1,2]
reduce_1 = reduce(attention) {dims=[0, 3], op="min"}: f32[2,1]
reduce_1.grad.broadcast = broadcast(reduce_1) {dims=[1, 2], shape=[3, 2, 1, 3]}: f32[3,2,1,3]
    @backward <- gradient reduce_1
reduce_1.grad.compare = compare(attention, reduce_1.grad.broadcast) {relation="eq"}: bool[3,2,1,3]
    @backward <- gradient reduce_1
reduce_1.grad.x = select(reduce_1.grad.compare, reduce_1.grad.broadcast_1, reduce_1.grad.constant):
    f32[3,2,1,3] @backward <- gradient reduce_1
attention.grad.qkv = attention_grad(broadcast_1, broadcast_2, broadcast_3, attention, attention:1,
    reduce_1.grad.x) {causal=false, scale=0.5}: f32[3,2,1,3], f32[3,4,1,3], f32[3,4,1,3] @backward
    <- gradient attention
)"},

{"AMinimumChoosesWhereACancelledGradientGoes", R"(seed 3060965
mode general
steps 1
mesh all x=1 at 0
fill attention_1.grad.sum real 0.0555555559694767 0.0555555559694767
fill broadcast_1 real 0.33379780142009935 0.33379780142009935
fill in_9 real 0.25 2.0
fill logistic real 0.33379780142009935 0.679178699175393
fill pad real -3.257121689221757 1.533542367074672
fill reduce.grad.constant whole 0.0 0.0
fill reduce.grad.count whole 1.0 1.0
mark tensor logistic P(None, "x")
graph
input in_9: f32[3,3,2,2]
input attention_1.grad.sum: f32[3,3,2,2]
input pad: f32[3,3,2,2]
input reduce.grad.count: f32[]
input broadcast_1: f32[3,3,2,2]
input logistic: f32[3,4]
input reduce.grad.constant: f32[3,4]
reduce = reduce(logistic) {dims=[0, 1], op="min"}: f32[]
attention_1 = attention(pad, broadcast_1, in_9) {causal=true, scale=0.5}: f32[3,3,2,2], f32[3,2,3]
attention_1.grad.qkv = attention_grad(pad, broadcast_1, in_9, attention_1, attention_1:1,
    attention_1.grad.sum) {causal=true, scale=0.5}: f32[3,3,2,2], f32[3,3,2,2], f32[3,3,2,2]
    @backward <- gradient attention_1
broadcast_1.grad.sum = reduce(attention_1.grad.qkv:1) {dims=[0, 1, 2, 3], op="sum"}: f32[]
    @backward <- gradient broadcast_1
broadcast_1.grad.x = reshape(broadcast_1.grad.sum) {shape=[1, 1, 1, 1]}: f32[1,1,1,1] @backward <-
    gradient broadcast_1
reshape_1.grad.x = reshape(broadcast_1.grad.x) {shape=[]}: f32[] @backward <- gradient reshape_1
reduce.grad.broadcast = broadcast(reduce) {dims=[], shape=[3, 4]}: f32[3,4] @backward <- gradient
    reduce
reduce.grad.compare = compare(logistic, reduce.grad.broadcast) {relation="eq"}: bool[3,4] @backward
    <- gradient reduce
reduce.grad.share = div(reshape_1.grad.x, reduce.grad.count): f32[] @backward <- gradient reduce
reduce.grad.broadcast_1 = broadcast(reduce.grad.share) {dims=[], shape=[3, 4]}: f32[3,4] @backward
    <- gradient reduce
reduce.grad.x = select(reduce.grad.compare, reduce.grad.broadcast_1, reduce.grad.constant):
    f32[3,4] @backward <- gradient reduce
)"},

{"TheSquareOfACancelledGradient", R"(seed 3067089
mode general
steps 2
mesh all x=1 y=1 at 0
fill attention.grad.sum real 0.0 0.16666666666666666
fill broadcast real 0.0 0.5339151620864868
fill broadcast_1 real -0.7811870574951172 -0.7811870574951172
fill in_3 real -1.0 1.0
fill reduce.grad.constant whole 0.0 0.0
fill reduce.grad.count whole 1.0 1.0
fill w.adamw.next real -0.6331919431686401 0.5339151620864868
mark tensor w.adamw.next P(("x","y"))
graph
input in_3: f32[1,3,3,2]
input w.adamw.next: f32[3]
input attention.grad.sum: f32[1,3,3,2]
input reduce.grad.count: f32[]
input broadcast_1: f32[1,3,3,2]
input broadcast: f32[1,3,3,2]
input reduce.grad.constant: f32[3]
variable w: f32[3] = uniform(-1.0, 1.0)
reduce = reduce(w) {dims=[0], op="max"}: f32[]
attention = attention(broadcast, broadcast_1, in_3) {causal=false, scale=0.5}: f32[1,3,3,2],
    f32[1,3,3]
attention.grad.qkv = attention_grad(broadcast, broadcast_1, in_3, attention, attention:1,
    attention.grad.sum) {causal=false, scale=0.5}: f32[1,3,3,2], f32[1,3,3,2], f32[1,3,3,2]
    @backward <- gradient attention
broadcast.grad.sum = reduce(attention.grad.qkv) {dims=[1, 3], op="sum"}: f32[1,3] @backward <-
    gradient broadcast
broadcast.grad.x = reshape(broadcast.grad.sum) {shape=[1, 1, 3, 1]}: f32[1,1,3,1] @backward <-
    gradient broadcast
pad.grad.x = pad(broadcast.grad.x) {low=[0, 0, 0, 0], shape=[1, 1, 1, 1], value=0.0}: f32[1,1,1,1]
    @backward <- gradient pad
reshape_1.grad.x = reshape(pad.grad.x) {shape=[]}: f32[] @backward <- gradient reshape_1
reduce.grad.broadcast = broadcast(reduce) {dims=[], shape=[3]}: f32[3] @backward <- gradient reduce
reduce.grad.compare = compare(w, reduce.grad.broadcast) {relation="eq"}: bool[3] @backward <-
    gradient reduce
reduce.grad.share = div(reshape_1.grad.x, reduce.grad.count): f32[] @backward <- gradient reduce
reduce.grad.broadcast_1 = broadcast(reduce.grad.share) {dims=[], shape=[3]}: f32[3] @backward <-
    gradient reduce
reduce.grad.x = select(reduce.grad.compare, reduce.grad.broadcast_1, reduce.grad.constant): f32[3]
    @backward <- gradient reduce
clip.w.square = square(reduce.grad.x): f32[3] @optimizer <- optimizer w
next w = w.adamw.next
)"},
    // Parts with windows were treated as parts of a factor without windows.
    {"PartsOfAConcatLieInWindows", R"(seed 5003266
mode exact
steps 1
mesh all x=2 at 0
fill in_2 whole -3.0 6.0
fill in_3 whole -3.0 6.0
mark tensor in_2 P(None)
mark tensor in_3 P("x")
graph
input in_2: i32[3]
input in_3: i32[6]
concat = concat(in_2, in_2) {dim=0}: i32[6]
mod = mod(concat, in_3): i32[6]
)"},
    {"AChunkOfASumIsNoSum", R"(seed 21735
mode exact
steps 1
chunks 2
mesh all x=1 y=2 at 0
fill dot_general.grad.sum whole 0.0 0.0
fill w whole -3.0 3.0
fill w_4 whole -3.0 3.0
mark tensor w P("y", None, None)
mark tensor w_4 P(("x","y"))
graph
input dot_general.grad.sum: f32[2,2]
variable w: f32[2,7,2] = constant(1.0)
variable w_4: f32[7] = constant(1.0)
dot_general.grad.a = dot_general(dot_general.grad.sum, w_4) {spec="ac,b->abc"}: f32[2,7,2]
    @backward <- gradient dot_general
dot_general.grad.b = dot_general(w, dot_general.grad.sum) {spec="abc,ac->b"}: f32[7] @backward <-
    gradient dot_general
)"},
    {"TheOperandOfAPadLiesInAWindow", R"(seed 5002601
mode general
steps 1
mesh all x=2 at 0
fill select real -0.35 0.85
mark tensor select P(None)
mark op max [P("x"), P("x")]
graph
input select: f32[3]
variable w: f32[6] = uniform(-1.0, 1.0)
pad = pad(select) {low=[0], shape=[6], value=0.0}: f32[6]
max = max(pad, w): f32[6]
)"},

{"WhatIsComputedTwiceIsRoundedTwice", R"(seed 8014179
mode general
steps 1
mesh all x=2 y=2 at 0
fill in_2 real -1.0 1.0
mark tensor convolution_1 P(None, "x", "y")
graph
input in_2: f32[4,4,4]
variable w_3: f32[6,2,2] = normal(0.0, 0.5)
variable w_4: f32[6,1,3] = uniform(-1.0, 1.0)
convolution = convolution(in_2, w_3) {dilation=[1], groups=2, high=[0], low=[2], stride=[1]}:
    f32[4,6,5]
convolution_1 = convolution(convolution, w_4) {dilation=[1], groups=6, high=[1], low=[1],
    stride=[1]}: f32[4,6,5]
)"},

{"AMinimumOverRanksBecomesASum", R"(seed 8016383
mode general
steps 1
mesh all x=1 y=1 at 0
fill log1p real 0.6121896274015127 0.7862449588120731
mark op reduce.grad.broadcast [y: Partial(sum)]
mark tensor reduce.grad.cast P("y", "x")
graph
input log1p: f32[5,5]
reduce = reduce(log1p) {dims=[0], op="min"}: f32[5]
pad_1 = pad(reduce) {low=[-1], shape=[8], value=0.0}: f32[8]
reduce.grad.broadcast = broadcast(reduce) {dims=[1], shape=[5, 5]}: f32[5,5] @backward <- gradient
    reduce
reduce.grad.compare = compare(log1p, reduce.grad.broadcast) {relation="eq"}: bool[5,5] @backward <-
    gradient reduce
reduce.grad.cast = cast(reduce.grad.compare) {dtype="f32"}: f32[5,5] @backward <- gradient reduce
)"},

{"WhatIsComputedTwiceInStridesIsRoundedTwice", R"(seed 8043894
mode general
steps 1
mesh all x=2 y=1 at 0
fill in_3 real 0.25 2.0
mark tensor w_3 P("y", None, "x")
graph
input in_3: f32[4,3,3]
variable w_3: f32[4,2,2] = normal(0.0, 0.5)
variable w_5: f32[4,1,2] = uniform(-1.0, 1.0)
convolution = convolution(w_3, w_5) {dilation=[1], groups=2, high=[1], low=[0], stride=[1]}:
    f32[4,4,2]
tanh_1 = tanh(convolution): f32[4,4,2]
convolution_grad_input = convolution_grad_input(tanh_1, in_3) {dilation=[1], extents=[4], groups=1,
    high=[1], low=[0], stride=[2]}: f32[4,3,4]
)"},

{"WhatIsComputedTwiceInGroupsIsRoundedTwice", R"(seed 8045329
mode general
steps 1
mesh all x=1 y=3 at 0
fill min_scalar real 0.5449586510658264 2.0110151767730713
fill slice real 0.1036561131477356 0.1036561131477356
mark tensor min_scalar P("x", None, "y", None)
graph
input slice: f32[1,1,2,2]
input min_scalar: f32[1,2,3,5]
variable w_4: f32[1,2,1,2] = normal(0.0, 0.5)
convolution = convolution(min_scalar, w_4) {dilation=[2, 2], groups=1, high=[0, 0], low=[2, 2],
    stride=[2, 1]}: f32[1,1,3,5]
mul_scalar = mul_scalar(convolution) {value=0.08333333333333333}: f32[1,1,3,5]
convolution_1 = convolution(mul_scalar, slice) {dilation=[2, 1], groups=1, high=[1, 1], low=[1, 1],
    stride=[1, 1]}: f32[1,1,3,6]
)"},

{"AVariableWithCopiesOfAPassIsUpdatedOnAnotherMesh", R"(seed 1301
steps 1
mesh middle y=1 at 2
mesh last x=1 y=1 at 0
mark tensor w.exp_avg_sq P(2*("x","y"))
stage tensor w.exp_avg_sq last
copies w.exp_avg_sq
graph
input step: f32[2]
variable w.exp_avg_sq: f32[2] = constant(0.0) state <- optimizer w
w.adam.exp_avg_sq = add(w.exp_avg_sq, step): f32[2] @optimizer <- optimizer w
next w.exp_avg_sq = w.adam.exp_avg_sq
)"},

{"AVariableWithCopiesOfAPassHasTheNextValueOfAnotherOne", R"(seed 20300961
steps 1
mesh part0 x=1 at 0
mesh part1 x=1 at 1
fill kept real 0.25 2.0
fill step whole 0.0 0.0
stage op dot_general part1
mark tensor w P("x")
copies w
graph
input step: f32[4]
variable kept: f32[4] = constant(0.0) state
variable w: f32[4] = uniform(-1.0, 1.0)
variable w_1: f32[5,5,5] = uniform(-1.0, 1.0)
variable w_3: f32[5,6] = normal(0.0, 0.5)
dot_general = dot_general(w_1, w_3) {spec="abc,bd->cda"}: f32[5,6,5]
w.momentum.next = sub(w, step): f32[4] @optimizer <- optimizer w
next kept = w.momentum.next
next w = w.momentum.next
)"},

{"ACastOfAVariableWithCopiesOfAPassIsTheNextValueOfAnotherOne", R"(seed 20280605
steps 1
mesh all x=1 y=1 at 0
fill w_1 whole 0.0 1.0
mark tensor w P("x")
mark tensor w_1 P(("y","x"))
copies w_1
graph
variable w: f32[6] = normal(0.0, 0.5)
variable w_1: bool[6] = constant(1.0) state
cast = cast(w_1) {dtype="f32"}: f32[6]
output out2 = cast
next w = cast
)"},

{"TheElementsThatAMinimumIsComparedWithAreComputedAgainElsewhere", R"(seed 904657
mode general
steps 1
passes recompute
mesh all x=1 y=1 z=2 at 0
fill in whole -3.0 3.0
fill in_1 real -1.0 1.0
fill in_3 whole -3.0 3.0
mark tensor w_1 P(("z","x"))
mark tensor in_3 P(("x","z","y"))
graph
input in: f32[2]
input in_1: f32[2,2,1]
input in_3: f32[2]
variable w_1: f32[1] = uniform(-1.0, 1.0)
in.f16 = cast(in) {dtype="f16"}: f16[2] <- precision in
w_1.f16 = cast(w_1) {dtype="f16"}: f16[1] <- precision w_1
dot_general = dot_general(in.f16, w_1.f16) {spec="a,b->ab"}: f16[2,1]
in_1.f16 = cast(in_1) {dtype="f16"}: f16[2,2,1] <- precision in_1
dot_general_1 = dot_general(dot_general, in_1.f16) {spec="ab,acb->bc"}: f16[1,2]
mul_scalar = mul_scalar(dot_general_1) {value=0.2222222222222222}: f16[1,2]
mul = mul(in, in_3): f32[2]
mul_scalar.f32 = cast(mul_scalar) {dtype="f32"}: f32[1,2] <- precision mul_scalar
reduce = reduce(mul_scalar.f32) {dims=[0, 1], op="min"}: f32[]
reduce.grad.broadcast = broadcast(reduce) {dims=[], shape=[1, 2]}: f32[1,2] @backward
    <- gradient reduce
reduce.grad.compare = compare(mul_scalar.f32, reduce.grad.broadcast) {relation="eq"}: bool[1,2]
    @backward <- gradient reduce
output out1 = reduce
)"},
{"ProductsOf16BitsAreAddedInChunks", R"(seed 9019429
mode exact
steps 1
chunks 2
mesh all x=1 y=2 at 0
fill g whole 0.0 1.0
fill x whole -6.0 6.0
mark tensor x P(None, None, "y")
graph
input x: f16[6,6,6]
input g: f16[6,6]
a = dot_general(g, x) {spec="dc,abd->abc"}: f16[6,6,6] @backward <- gradient dot
b = dot_general(x, g) {spec="abc,dc->abd"}: f16[6,6,6] @backward <- gradient dot
sum = add(a, b): f16[6,6,6] @backward <- gradient sum x
cast = cast(sum) {dtype="f32"}: f32[6,6,6] @backward <- gradient x
output out1 = cast
)"},
};
// clang-format on

/// The text of a case. A line that begins with four spaces continues the previous one.
std::string unwrapped(std::string text) {
  constexpr std::string_view kContinued = "\n    ";
  for (size_t at = text.find(kContinued); at != std::string::npos; at = text.find(kContinued, at))
    text.replace(at, kContinued.size(), " ");
  return text;
}

class FailedCases : public testing::TestWithParam<FailedOnce> {};

TEST_P(FailedCases, Agree) {
  const auto failure = run_case(parse_case(unwrapped(GetParam().text)));
  EXPECT_FALSE(failure) << failure->text;
}

INSTANTIATE_TEST_SUITE_P(Fuzz, FailedCases, testing::ValuesIn(kFailedOnce),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace tessera::fuzz
