// An operator of a user's program (examples/05_custom_op) through the whole system: checked by its
// definition, differentiated, sharded, lowered, run on ranks, and compared tensor by tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../examples/05_custom_op/rms_scale.h"
#include "base/testing/error.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/graph/initializer.h"
#include "ir/ops/detail.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/testing/operator_check.h"
#include "runtime/runtime/runtime.h"

namespace tessera {
namespace {

using operator_testing::OperatorCase;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TensorType f32(Shape shape) {
  return {DType::kF32, shape};
}
MeshPtr mesh_of(std::string_view text) {
  return std::make_shared<const Mesh>(parse_mesh(text));
}

OperatorSetPtr rms_scale_set(std::vector<Operator> operators = rms_scale_operators(),
                             std::vector<NamedKernel> kernels = rms_scale_kernels()) {
  return std::make_shared<const OperatorSet>(std::move(operators), std::move(kernels));
}

// ---- the definition alone ----

std::vector<OperatorCase> cases(const OperatorSetPtr& own) {
  const Attributes attributes{{"epsilon", 0.125}};
  const auto of = [&](std::string kind, std::vector<TensorType> inputs) {
    return OperatorCase{.kind = std::move(kind),
                        .inputs = std::move(inputs),
                        .attributes = attributes,
                        .operators = own};
  };
  return {of("rms_scale", {f32({5, 7}), f32({7})}),
          of("rms_scale", {f32({2, 3, 5}), f32({5})}),
          of("rms_scale", {f32({6}), f32({6})}),
          of("rms_scale", {f32({33, 65}), f32({65})}),
          of("rms_scale_grad", {f32({5, 7}), f32({7}), f32({5, 7})}),
          of("rms_scale_grad", {f32({2, 3, 5}), f32({5}), f32({2, 3, 5})}),
          of("rms_scale_grad", {f32({33, 65}), f32({65}), f32({33, 65})})};
}

OperatorCase small_case(const OperatorSetPtr& own = rms_scale_set()) {
  return cases(own).front();
}

TEST(UserOperator, PassesTheChecksOfTheBuiltInOnes) {
  for (const OperatorCase& given : cases(rms_scale_set())) EXPECT_TRUE(check_operator(given));
}

TEST(UserOperator, WithAGradientThatForgetsATermIsFound) {
  Operator broken = rms_scale_operators().front();
  broken.gradient = [](Builder& builder, const GradientCall& call) {
    // As if the root mean square were a constant.
    const ValueId dx = builder.op1("rms_scale", {*call.output_gradients[0], call.op.inputs[1]},
                                   call.op.attributes);
    auto gradients = rms_scale_operators().front().gradient(builder, call);
    gradients[0] = dx;
    return gradients;
  };
  EXPECT_FALSE(check_gradient(broken, small_case()));
}

TEST(UserOperator, WithARuleThatDividesWhatMustStayWholeIsFound) {
  Operator broken = rms_scale_operators().front();
  broken.rule = [](const OpView& op) {
    ShardingRule rule = rms_scale_operators().front().rule(op);
    rule.factors[rule.find("e")].kind = FactorKind::kParallel;
    return rule;
  };
  EXPECT_FALSE(check_division(broken, small_case()));
}

TEST(UserOperator, WithARuleThatForgetsToAddUpIsFound) {
  Operator broken = rms_scale_operators().back();
  broken.rule = [](const OpView& op) {
    ShardingRule rule = rms_scale_operators().back().rule(op);
    rule.factors[rule.find("n0")].reduce = ReduceOp::kMax;
    return rule;
  };
  EXPECT_FALSE(check_division(broken, cases(rms_scale_set())[4]));
}

TEST(UserOperator, WithAKernelThatIsNotItsReferenceIsFound) {
  std::vector<NamedKernel> kernels = rms_scale_kernels();
  kernels.front().bind = [](LocalCall call) {
    call.reals[0] = 0.126;
    return rms_scale_kernels().front().bind(call);
  };
  EXPECT_FALSE(
      check_operator(small_case(rms_scale_set(rms_scale_operators(), std::move(kernels)))));
}

// ---- in a program ----

/// Two layers of a residual network over x[8, 3, 6], with an rms_scale before each; the loss is the
/// sum of the squares of the deviations.
Graph training_graph(const OperatorSetPtr& own) {
  Graph graph(own);
  Builder b(graph);
  ValueId x = b.input("x", f32({8, 3, 6}));
  const ValueId target = b.input("target", f32({8, 3, 6}));
  for (const char* layer : {"first", "second"}) {
    const auto scope = b.scope(layer);
    const ValueId gain = b.variable("gain", f32({6}), Initializer::normal(1, 0.1));
    const ValueId up = b.variable("up", f32({6, 16}), Initializer::normal(0, 0.5));
    const ValueId down = b.variable("down", f32({16, 6}), Initializer::normal(0, 0.25));
    const ValueId scaled = b.op1("rms_scale", {x, gain}, {{"epsilon", 0.01}}, "scaled");
    const ValueId wide = b.unary("tanh", b.dot(scaled, up, "nsi,ih->nsh", "wide"), "bent");
    x = b.add(x, b.dot(wide, down, "nsh,hi->nsi", "narrow"), "sum");
  }
  const ValueId loss =
      b.reduce_sum(b.unary("square", b.sub(x, target, "error")), {0, 1, 2}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kMomentum});
  return graph;
}

/// Data and tensor parallel: the batch over dp, the wide dim over tp.
std::vector<Mark> dp_tp_marks() {
  return {shard_tensor("x", "P(\"dp\")"), shard_tensor("target", "P(\"dp\")"),
          shard_tensor("*.up", "P(None, \"tp\")")};
}

Tensor drawn(const std::string& name, const TensorType& type) {
  return initial_value(name, type, Initializer::normal(0, 2), 3, whole_box(type.shape));
}

/// Trains on ranks. Before each step the reference interpreter takes the state and computes every
/// variable and the loss, which must agree within four times the rounding error of all ops (as in
/// `tessera verify`).
void expect_serial(const Graph& graph, const Compiled& compiled, int steps) {
  Runtime runtime(ranks(compiled.tasks));
  LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(compiled.tasks));
  runtime.initialize(program, 1);
  TensorMap results;
  for (int32_t step = 0; step < steps; ++step) {
    TensorMap inputs;
    inputs["x"] = drawn("x" + std::to_string(step), f32({8, 3, 6}));
    inputs["target"] = drawn("target", f32({8, 3, 6}));
    inputs["step"] = Tensor::scalar(step);
    inputs["learning_rate"] = Tensor::scalar(0.002f);
    ReferenceValues state;
    std::map<std::string, const Tensor*> given;
    for (const auto& [name, tensor] : inputs) {
      state[name] = to_reference(tensor);
      given[name] = &tensor;
    }
    for (const std::string& name : runtime.variable_names())
      state[name] = to_reference(runtime.variable(name));
    const ReferenceValues plain = interpret(graph, state);
    std::map<std::string, double> own;
    const ReferenceValues moved =
        interpret(graph, state, {.perturb = static_cast<uint64_t>(step) + 1, .tolerances = &own});

    runtime.run(program, given, results);
    const auto compare = [&](const std::string& value, const Tensor& tensor) {
      const double tolerance = 4 * (own[value] + largest_change(plain.at(value), moved.at(value)));
      EXPECT_LE(largest_change(to_reference(tensor), plain.at(value)), tolerance)
          << value << " after step " << step;
    };
    compare("loss", results.at("loss"));
    for (const Variable& variable : graph.variables())
      compare(graph.value(*variable.next).name, runtime.variable(graph.value(variable.value).name));
  }
}

TEST(UserOperator, TrainsAsTheSerialProgramUnderDataAndTensorParallelism) {
  const Graph graph = training_graph(rms_scale_set());
  expect_serial(graph, compile(graph, mesh_of("dp=2 tp=2"), dp_tp_marks()), 3);
}

TEST(UserOperator, TrainsAsTheSerialProgramOnUnevenPartsAndOnOneRank) {
  const Graph graph = training_graph(rms_scale_set());
  expect_serial(graph, compile(graph, mesh_of("dp=3"), {shard_tensor("x", "P(\"dp\")")}), 2);
  expect_serial(graph, compile(graph, mesh_of("dp=1"), {}), 2);
}

TEST(UserOperator, TrainsAsTheSerialProgramInMicroBatches) {
  const Graph graph = training_graph(rms_scale_set());
  expect_serial(graph,
                compile(graph, Plan{.meshes = one_mesh(mesh_of("dp=2 tp=2")),
                                    .micro_batches = 2,
                                    .marks = dp_tp_marks()}),
                2);
}

/// half(x) = x / 2, whose kernel may overwrite its operand.
OperatorSetPtr half_set(bool in_place) {
  const Operator half{
      .name = "half",
      .infer = [](const OpView& op) { return op.inputs; },
      .rule = [](const OpView& op) { return detail::elementwise_rule(op, {{0}}); },
      .work = [](const OpView& op) { return detail::elementwise_work(op, detail::kCheap); },
      .kernel = [](const OpView&, std::span<const Split>) { return detail::kernel_call("half"); },
      .reference =
          [](const ReferenceCall& call) {
            for (size_t i = 0; i < call.outputs[0].values.size(); ++i)
              call.outputs[0].values[i] = call.inputs[0]->values[i] / 2;
          },
      .tolerance = detail::exact,
  };
  const auto bind = [](const LocalCall& call) {
    const auto run = [count = element_count(call.outputs[0].shape)](const KernelBuffers& buffers) {
      const auto* x = reinterpret_cast<const float*>(buffers.inputs[0]);
      auto* y = reinterpret_cast<float*>(buffers.outputs[0]);
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] / 2;
    };
    return BoundKernel{run, Bytes(0)};
  };
  return rms_scale_set({half}, {{"half", bind, in_place}});
}

TEST(UserOperator, MayRunInPlace) {
  for (const bool in_place : {false, true}) {
    Graph graph(half_set(in_place));
    Builder b(graph);
    const ValueId x = b.input("x", f32({8, 6}));
    const ValueId negated = b.unary("neg", x, "negated");
    graph.add_output("y",
                     b.reduce(ReduceOp::kMax, b.op1("half", {negated}, {}, "halved"), {0, 1}, "y"));
    const TaskGraph tasks = compile(graph, mesh_of("dp=2"), {shard_tensor("x", "P(\"dp\")")}).tasks;
    const auto offset_of = [&](std::string_view name) {
      for (const Register& reg : tasks.registers)
        if (reg.name == name) return reg.offset;
      return int64_t{-1};
    };
    EXPECT_EQ(offset_of("halved") == offset_of("negated"), in_place);
    Runtime runtime(ranks(tasks));
    LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(tasks));
    Tensor given(f32({8, 6}));
    for (size_t i = 0; i < 48; ++i) given.values<float>()[i] = static_cast<float>(i) - 10;
    TensorMap results;
    runtime.run(program, {{"x", &given}}, results);
    EXPECT_EQ(results.at("y").values<float>()[0], 5);  // -(-10) / 2
  }
}

TEST(UserOperator, IsDividedByItsRule) {
  const Graph graph = training_graph(rms_scale_set());
  const Compiled compiled = compile(graph, mesh_of("dp=2 tp=2"), dp_tp_marks());
  const ValueId scaled = *compiled.graph.find_value("second.scaled");
  EXPECT_EQ(to_text(compiled.graph.type(scaled), compiled.sharded.at(scaled)), "f32[8@dp, 3, 6]");
  std::vector<std::string> about_gain;
  for (const Task& task : compiled.tasks.tasks)
    for (size_t part = 0; part < task.parts.size(); ++part) {
      const std::string& made = compiled.tasks.registers[task.outputs[part]].name;
      if (made.find("scaled.grad.x:1") != std::string::npos)
        about_gain.push_back(std::string(to_text(task.parts[part].exchange.kind)) + " " + made);
    }
  // The rows of the batch are sharded over dp, so that each rank has a partial value of the
  // gradient of the gain.
  EXPECT_THAT(about_gain, UnorderedElementsAre("all-reduce second.scaled.grad.x:1 [*]",
                                               "all-reduce first.scaled.grad.x:1 [*]"));
}

TEST(UserOperator, IsPlacedAndRefusedByMarksOnIt) {
  const Graph graph = training_graph(rms_scale_set());
  const ShardedGraph placed =
      propagate(graph, mesh_of("tp=2"), {shard_op("first.scaled", "[P(None, \"tp\"), P()]")});
  const ValueId scaled = *graph.find_value("first.scaled");
  EXPECT_EQ(to_text(graph.type(scaled), placed.at(scaled)), "f32[8, 3@tp, 6]");
  const std::vector<Mark> wrong = {shard_op("first.scaled", "[P(None, None, \"tp\"), P(\"tp\")]")};
  EXPECT_EQ(error_testing::message_of(ExitCode::kBadConfig,
                                      [&] { propagate(graph, mesh_of("tp=2"), wrong); }),
            "mark 'first.scaled' (code) does not fit op 'first.scaled': op 'first.scaled': factor "
            "'e' cannot be divided\n"
            "  why: the operator needs it whole\n"
            "  fix: leave that dim whole on every axis");
}

OperatorSetPtr unruled_set() {
  std::vector<Operator> unruled = rms_scale_operators();
  for (Operator& op : unruled) op.rule = nullptr;
  return rms_scale_set(std::move(unruled));
}

std::vector<std::string> notes_of(const ShardedGraph& sharded) {
  std::vector<std::string> texts;
  for (const ShardingNote& note : sharded.notes) texts.push_back(note.text);
  return texts;
}

TEST(UserOperator, WithoutARuleIsDividedAsExecutionShowsAndTrainsAsTheSerialProgram) {
  for (const OperatorCase& given : cases(unruled_set())) EXPECT_TRUE(check_operator(given));
  const Graph graph = training_graph(unruled_set());
  const Compiled compiled = compile(graph, mesh_of("dp=2 tp=2"), dp_tp_marks());
  EXPECT_TRUE(compiled.sharded.at(*compiled.graph.find_op("second.scaled")).uses(0));
  // The rules that examples/05_custom_op declares, except for names.
  EXPECT_THAT(
      notes_of(compiled.sharded),
      ::testing::ElementsAre(
          "rms_scale 'first.scaled' brings no rule; discovered by execution: ([f1, f2, _], [_]) -> "
          "([f1, f2, _]) "
          "{linear: 1}",
          "rms_scale_grad 'second.scaled.grad.x' brings no rule; discovered by execution: ([f1, "
          "f2, _], [_], [f1, "
          "f2, _]) -> ([f1, f2, _], [_]) {f1: reduction sum, f2: reduction sum} {linear: 2}"));
  expect_serial(graph, compiled, 2);
}

TEST(UserOperator, WithoutARuleRunsInMicroBatches) {
  const Graph graph = training_graph(unruled_set());
  expect_serial(graph,
                compile(graph, Plan{.meshes = one_mesh(mesh_of("dp=2")),
                                    .micro_batches = 2,
                                    .marks = {shard_tensor("x", "P(\"dp\")")}}),
                2);
}

/// An operator without a rule and without a kernel that could run on a part: the kernel gets the
/// size of the whole.
OperatorSetPtr indivisible_set() {
  std::vector<Operator> operators = rms_scale_operators();
  for (Operator& op : operators) {
    op.rule = nullptr;
    op.kernel = [](const OpView& view, std::span<const Split>) {
      const std::string kernel = view.inputs.size() == 2 ? "rms_scale" : "rms_scale_grad";
      const Shape& x = view.inputs[0].shape;
      return detail::kernel_call(kernel, {x.begin(), x.end()}, {view.attributes.number("epsilon")});
    };
  }
  return rms_scale_set(std::move(operators));
}

TEST(UserOperator, WhoseKernelIsToldOfTheWholeStaysWholeAndTrainsAsTheSerialProgram) {
  EXPECT_TRUE(check_operator(small_case(indivisible_set())));
  const Graph graph = training_graph(indivisible_set());
  const Compiled compiled = compile(graph, mesh_of("dp=2"), {shard_tensor("x", "P(\"dp\")")});
  EXPECT_TRUE(compiled.sharded.at(*compiled.graph.find_op("second.wide")).uses(0));
  EXPECT_FALSE(compiled.sharded.at(*compiled.graph.find_op("second.scaled")).uses(0));
  EXPECT_THAT(
      notes_of(compiled.sharded)[0],
      ::testing::HasSubstr("its kernel for a part is not that of an op as small as the part"));
  expect_serial(graph, compiled, 2);
}

TEST(UserOperator, ThatStaysWholeTakesTheWholeBatchAtOnce) {
  const Graph graph = training_graph(indivisible_set());
  EXPECT_THAT(
      error_testing::message_of(
          ExitCode::kBadConfig,
          [&] { compile(graph, Plan{.meshes = one_mesh(mesh_of("dp=1")), .micro_batches = 2}); }),
      StartsWith("'x' is needed for the whole batch at once (op 'first.scaled' needs [*, *, *])"));
}

TEST(UserOperator, GoesThroughTheTextOfItsGraph) {
  const Graph graph = training_graph(rms_scale_set());
  const Graph read = parse_graph(to_text(graph), rms_scale_set());
  EXPECT_EQ(fingerprint(read), fingerprint(graph));
  EXPECT_EQ(to_text(compile(read, mesh_of("dp=2 tp=2"), dp_tp_marks()).tasks),
            to_text(compile(graph, mesh_of("dp=2 tp=2"), dp_tp_marks()).tasks));
  EXPECT_THROW(compile(parse_graph(to_text(graph)), mesh_of("dp=1"), {}), UserError);
}

TEST(UserOperator, RefusesOperandsThatDoNotFit) {
  Graph graph(rms_scale_set());
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 6})), gain = b.input("gain", f32({8}));
  EXPECT_EQ(error_testing::message_of(
                ExitCode::kBadData,
                [&] { b.op1("rms_scale", {x, gain}, {{"epsilon", 0.01}}, "scaled"); }),
            "rms_scale 'scaled': gain f32[8] does not fit x f32[8,6]\n"
            "  why: it has a gain for each column of x\n"
            "  fix: give it the type f32[6]");
}

}  // namespace
}  // namespace tessera
