#include "operator_plans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/rewrite/rewrite.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "ir/ops/operator_rule.h"
#include "ir/ops/testing/operator_cases.h"
#include "ir/precision/precision.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera::conformance {
namespace {

using operator_testing::OperatorCase;

constexpr std::string_view kOp = "op";
constexpr uint64_t kSeed = 5;

/// What a program has beside the operator.
struct ProgramOptions {
  int batch_factor = -1;  // operands that begin with it are the rows of the batch
  DType precision = DType::kF32;
};

struct Program {
  Graph graph;
  std::map<std::string, fuzz::Fill> fills;
};

OpView view_of_case(const OperatorCase& given, const Operator& definition) {
  OpView seen{.name = kOp, .attributes = given.attributes, .inputs = given.inputs, .outputs = {}};
  seen.definition = &definition;
  seen.outputs = definition.infer(seen);
  return seen;
}

bool begins_with(const ShardingRule& rule, size_t input, int factor) {
  const OperandFactors& dims = rule.inputs[input];
  return factor >= 0 && !dims.empty() && dims.front() == DimFactor{factor};
}

/// Writes the program of planned_operators().
class ProgramWriter {
 public:
  ProgramWriter(const OperatorCase& given, const ProgramOptions& options)
      : given_(given),
        options_(options),
        definition_(find_operator(given.kind)),
        seen_(view_of_case(given, definition_)),
        rule_(rule_of(definition_, seen_)),
        is_differentiable_(definition_.gradient != nullptr &&
                           is_float(seen_.outputs.front().dtype)) {}

  Program write() {
    Builder builder(program_.graph);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < given_.inputs.size(); ++i) operands.push_back(operand(builder, i));
    for (const ValueId result : builder.op(given_.kind, operands, given_.attributes, kOp))
      read(builder, result);
    program_.graph = with_precision(std::move(program_.graph), options_.precision);
    if (!trained_.empty()) train();
    return std::move(program_);
  }

 private:
  /// Rows of the batch and numbers that nothing differentiates are inputs; the others are
  /// variables, so that micro-batches do not divide them.
  ValueId operand(Builder& builder, size_t i) {
    const TensorType& type = given_.inputs[i];
    const bool is_input = options_.batch_factor >= 0 ? begins_with(rule_, i, options_.batch_factor)
                                                     : !is_differentiable_ || !is_float(type.dtype);
    const std::string name = (is_input ? "x" : "w") + std::to_string(i);
    const operator_testing::Fill fill =
        i < given_.fills.size() ? given_.fills[i] : operator_testing::Fill{};
    program_.fills[name] = {.whole = !is_float(type.dtype), .low = fill.low, .high = fill.high};
    if (is_input) return builder.input(name, type);
    const bool is_trained = is_differentiable_ && is_float(type.dtype);
    const ValueId variable = builder.variable(name, type, Initializer::constant(0), is_trained);
    if (!is_trained) return variable;
    trained_.push_back(name);
    return builder.mul_scalar(variable, 1, name + ".made");
  }

  /// An op that reads a result. The mean over the squares of the first one is the loss; gradients
  /// need not flow through the others.
  void read(Builder& builder, ValueId result) {
    const TensorType type = builder.type(result);
    const std::string name = "read" + std::to_string(reads_++);
    const bool is_bool = type.dtype == DType::kBool;
    const ValueId made = builder.unary(is_bool                ? "not"
                                       : is_float(type.dtype) ? "square"
                                                              : "neg",
                                       result, name);
    if (!is_differentiable_ || name != "read0") {
      program_.graph.add_output(name, made);
      return;
    }
    std::vector<int64_t> dims(static_cast<size_t>(type.shape.size()));
    std::iota(dims.begin(), dims.end(), 0);
    const auto count = static_cast<double>(std::max<int64_t>(element_count(type.shape), 1));
    program_.graph.add_output(
        "loss", builder.mul_scalar(builder.reduce_sum(made, dims, name + ".sum"), 1 / count,
                                   name + ".mean"));
  }

  void train() {
    Builder builder(program_.graph);
    std::vector<ValueId> variables;
    for (const std::string& name : trained_) variables.push_back(*program_.graph.find_value(name));
    const std::vector<ValueId> gradients =
        differentiate(builder, program_.graph.output("loss"), variables);
    builder.derive(Role::kOptimizer, {});
    for (size_t i = 0; i < variables.size(); ++i)
      program_.graph.set_next(variables[i],
                              builder.sub(variables[i], builder.mul_scalar(gradients[i], 0.125)));
  }

  const OperatorCase& given_;
  const ProgramOptions& options_;
  const Operator& definition_;
  OpView seen_;
  ShardingRule rule_;
  bool is_differentiable_;
  Program program_;
  std::vector<std::string> trained_;  // names of variables
  int reads_ = 0;
};

// ---- divisions ----

/// Factors of the op by axis of a mesh.
struct Division {
  Mesh mesh;
  std::vector<int> factors;
};

std::string text_of(const ShardingRule& rule, const Division& division) {
  std::string text;
  for (size_t axis = 0; axis < division.factors.size(); ++axis)
    text += (axis > 0 ? ", " : "") +
            rule.factors[static_cast<size_t>(division.factors[axis])].name + " over " +
            axis_text(division.mesh, static_cast<int>(axis));
  return text;
}

std::string placements_text(const Mesh& mesh, const std::vector<DistAttr>& attrs) {
  std::vector<std::string> texts;
  for (const DistAttr& attr : attrs) {
    std::vector<std::string> dims;
    for (const DimSharding& dim : attr.dims) {
      std::vector<std::string> axes;
      for (const int axis : dim.axes)
        axes.push_back("\"" + mesh.axes()[static_cast<size_t>(axis)] + "\"");
      dims.push_back(axes.empty()       ? "None"
                     : axes.size() == 1 ? axes.front()
                                        : "(" + join(axes, ", ") + ")");
    }
    texts.push_back("P(" + join(dims, ", ") + ")");
  }
  return "[" + join(texts, ", ") + "]";
}

/// The placements without windows and chunks, which a mark does not name.
std::vector<DistAttr> plain(std::vector<DistAttr> attrs) {
  for (DistAttr& attr : attrs)
    for (DimSharding& dim : attr.dims) dim = {dim.axes};
  return attrs;
}

/// A mark that divides the factors of the op so; nullopt when its operands, and its results, do
/// not say it.
std::optional<Mark> mark_of(const Graph& graph, const Division& division) {
  const Op& op = graph.op(*graph.find_op(std::string(kOp)));
  const OpView seen = view(graph, op);
  const ShardingRule rule = rule_of(*seen.definition, seen);
  const auto mesh = std::make_shared<const Mesh>(division.mesh);
  OpSharding sharding = OpSharding::replicated(mesh, rule);
  for (size_t axis = 0; axis < division.factors.size(); ++axis)
    sharding.factor_axes[static_cast<size_t>(division.factors[axis])].push_back(
        static_cast<int>(axis));
  std::vector<DistAttr> inputs, outputs;
  for (int i = 0; i < std::ssize(seen.inputs); ++i)
    inputs.push_back(input_attr(seen, rule, sharding, i));
  for (int i = 0; i < std::ssize(seen.outputs); ++i)
    outputs.push_back(output_attr(seen, rule, sharding, i));
  if (!inputs.empty()) try {
      if (sharding_for_inputs(seen, rule, plain(inputs)).factor_axes == sharding.factor_axes)
        return shard_op(std::string(kOp), placements_text(division.mesh, inputs), "case");
    } catch (const UserError&) {  // the operands do not have these factors alone
    }
  const bool is_partial =
      std::ranges::any_of(outputs, [](const DistAttr& attr) { return !attr.partial.empty(); });
  if (is_partial) return std::nullopt;
  try {
    if (sharding_for_outputs(seen, rule, plain(outputs)).factor_axes == sharding.factor_axes)
      return shard_op(std::string(kOp), "-> " + placements_text(division.mesh, outputs), "case");
  } catch (const UserError&) {  // nor do the results
  }
  return std::nullopt;
}

Mesh line(int64_t parts, std::vector<int64_t> weights = {}) {
  return Mesh({parts}, {"x"}, {}, {std::move(weights)});
}

std::vector<int> free_factors(const ShardingRule& rule) {
  std::vector<int> list;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (rule.factors[f].kind != FactorKind::kWhole) list.push_back(static_cast<int>(f));
  return list;
}

/// Each factor over the mesh of one axis; over one of two axes each two factors, or one twice.
std::vector<Division> divisions(const ShardingRule& rule, const Mesh& mesh) {
  std::vector<Division> list;
  for (const int f : free_factors(rule)) {
    if (mesh.axis_count() == 1) list.push_back({mesh, {f}});
    if (mesh.axis_count() == 2)
      for (const int g : free_factors(rule))
        if (f <= g && !rule.excludes(f, g)) list.push_back({mesh, {f, g}});
  }
  return list;
}

// ---- kinds ----

fuzz::FuzzCase case_of(const Program& program, Meshes meshes, std::vector<Mark> marks) {
  return {.seed = kSeed,
          .meshes = std::move(meshes),
          .marks = std::move(marks),
          .fills = program.fills,
          .graph = program.graph};
}

ShardingRule rule_of_case(const OperatorCase& given) {
  const Operator& definition = find_operator(given.kind);
  return rule_of(definition, view_of_case(given, definition));
}

Meshes on(const Mesh& mesh, DeviceKind device = DeviceKind::kHost) {
  Meshes meshes = one_mesh(std::make_shared<const Mesh>(mesh));
  meshes.front().device = device;
  return meshes;
}

std::vector<PlannedOperator> divided(const OperatorCase& given, const Mesh& mesh,
                                     const ProgramOptions& options = {},
                                     DeviceKind device = DeviceKind::kHost) {
  const Program program = ProgramWriter(given, options).write();
  const ShardingRule rule = rule_of_case(given);
  std::vector<PlannedOperator> list;
  for (const Division& division : divisions(rule, mesh))
    if (const std::optional<Mark> mark = mark_of(program.graph, division))
      list.push_back({text_of(rule, division), case_of(program, on(mesh, device), {*mark})});
  return list;
}

/// The smallest number above 1 that divides the extent.
int64_t smallest_divisor(int64_t extent) {
  for (int64_t divisor = 2; divisor <= extent; ++divisor)
    if (extent % divisor == 0) return divisor;
  return 1;
}

std::vector<PlannedOperator> in_micro_batches(const OperatorCase& given, const Meshes& meshes,
                                              const std::vector<Mark>& marks) {
  const ShardingRule rule = rule_of_case(given);
  std::vector<PlannedOperator> list;
  for (const int factor : free_factors(rule)) {
    const int64_t extent = rule.factors[static_cast<size_t>(factor)].extent;
    bool has_rows = false;
    for (size_t i = 0; i < given.inputs.size(); ++i) has_rows |= begins_with(rule, i, factor);
    for (const OperandFactors& result : rule.outputs)
      has_rows &= !result.empty() && result.front() == DimFactor{factor};
    if (!has_rows || smallest_divisor(extent) == 1) continue;
    const Program program = ProgramWriter(given, {.batch_factor = factor}).write();
    PlannedOperator planned{rule.factors[static_cast<size_t>(factor)].name,
                            case_of(program, meshes, marks)};
    planned.given.micro_batches = smallest_divisor(extent);
    list.push_back(std::move(planned));
  }
  return list;
}

/// The readers of the op on another stage than the op, once in a pipeline of micro-batches.
std::vector<PlannedOperator> on_two_stages(const OperatorCase& given) {
  const auto stage_of_rank = [](const char* name, Rank rank) {
    return NamedMesh{name, std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"one"},
                                                        std::vector<Rank>{rank})};
  };
  const Meshes meshes{stage_of_rank("first", 0), stage_of_rank("last", 1)};
  const std::vector<Mark> marks{stage(std::string(kOp), "first", "case"),
                                stage("read*", "last", "case")};
  std::vector<PlannedOperator> list = in_micro_batches(given, meshes, marks);
  for (PlannedOperator& planned : list) planned.given.schedule = PipelineKind::kZeroBubbleH1;
  list.push_back({"", case_of(ProgramWriter(given, {}).write(), meshes, marks)});
  return list;
}

std::vector<PlannedOperator> rewritten(const OperatorCase& given) {
  PlannedOperator planned{"", case_of(ProgramWriter(given, {}).write(), on(line(1)), {})};
  for (const GraphPass& pass : graph_passes()) planned.given.passes.emplace_back(pass.name);
  return {planned};
}

/// The variables over the axis of their first dims; the op is whole.
std::vector<PlannedOperator> with_divided_state(const OperatorCase& given) {
  const Program program = ProgramWriter(given, {}).write();
  std::vector<Mark> marks;
  for (const Variable& variable : program.graph.variables())
    if (program.graph.type(variable.value).shape.size() > 0)
      marks.push_back(shard_tensor(program.graph.value(variable.value).name, "P(\"x\")", "case"));
  if (marks.empty()) return {};
  for (const Mark& mark : std::vector<Mark>(marks))
    if (program.graph.find_op(mark.pattern + ".made"))
      marks.push_back(shard_tensor(mark.pattern + ".made", "P()", "case"));
  return {{"", case_of(program, on(line(3)), marks)}};
}

std::vector<PlannedOperator> narrow(const OperatorCase& given) {
  const ProgramOptions options{.precision = DType::kBF16};
  const Graph graph = ProgramWriter(given, options).write().graph;
  const bool has_narrow_ops = std::ranges::any_of(
      graph.values(), [](const Value& value) { return value.type.dtype == DType::kBF16; });
  return has_narrow_ops ? divided(given, line(2), options) : std::vector<PlannedOperator>{};
}

}  // namespace

std::string_view to_text(PlanKind kind) {
  constexpr std::string_view kTexts[] = {
      "halves", "thirds",    "empty parts",   "weighted parts", "two axes",    "micro-batches",
      "stages", "rewritten", "divided state", "narrow",         "fake device", "two processes"};
  return kTexts[static_cast<size_t>(kind)];
}

const std::vector<PlanKind>& plan_kinds() {
  static const std::vector<PlanKind> kKinds = [] {
    std::vector<PlanKind> list;
    for (int kind = 0; kind <= static_cast<int>(PlanKind::kTwoProcesses); ++kind)
      list.push_back(static_cast<PlanKind>(kind));
    return list;
  }();
  return kKinds;
}

std::vector<PlannedOperator> planned_operators(const OperatorCase& given, PlanKind kind) {
  switch (kind) {
    case PlanKind::kHalves: return divided(given, line(2));
    case PlanKind::kThirds: return divided(given, line(3));
    case PlanKind::kEmptyParts: return divided(given, line(8));
    case PlanKind::kWeightedParts: return divided(given, line(2, {2, 1}));
    case PlanKind::kTwoAxes: return divided(given, Mesh({2, 2}, {"x", "y"}));
    case PlanKind::kMicroBatches: return in_micro_batches(given, on(line(1)), {});
    case PlanKind::kStages: return on_two_stages(given);
    case PlanKind::kRewritten: return rewritten(given);
    case PlanKind::kDividedState: return with_divided_state(given);
    case PlanKind::kNarrow: return narrow(given);
    case PlanKind::kFakeDevice: return divided(given, line(2), {}, DeviceKind::kFake);
    case PlanKind::kTwoProcesses: {
      std::vector<PlannedOperator> list = divided(given, line(2));
      for (PlannedOperator& planned : list) planned.in_two_processes = true;
      return list;
    }
  }
  return {};
}

std::vector<OperatorCase> cases_of(std::string_view kind, size_t count) {
  std::vector<OperatorCase> all;
  for (const OperatorCase& each : operator_testing::operator_cases())
    if (each.kind == kind && !each.complete) all.push_back(each);
  if (all.empty()) {  // its operands must fit each other: the gradient of the operator has them
    ensure(kind.ends_with("_grad"), "operator " + std::string(kind) + " has a case");
    return cases_of(kind.substr(0, kind.size() - std::string_view("_grad").size()), count);
  }
  std::vector<OperatorCase> some;
  const size_t taken = std::min(count, all.size());
  for (size_t i = 0; i < taken; ++i)
    some.push_back(all[taken == 1 ? 0 : i * (all.size() - 1) / (taken - 1)]);
  return some;
}

}  // namespace tessera::conformance
