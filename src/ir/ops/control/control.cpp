// While and If: their types, their builders and their plain reference.
#include "ir/ops/control/control.h"

#include <algorithm>
#include <iterator>

#include "base/text/text.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/control/invariants.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using namespace detail;

constexpr TensorType kPredicate{DType::kBool, {}};
constexpr TensorType kCount{DType::kI32, {}};

// ---- types ----

std::string ordinal(size_t index) {
  return std::to_string(index);
}

void expect_regions(std::string_view kind, const OpView& op, std::string_view first,
                    std::string_view second) {
  if (op.regions.size() == 2) return;
  refuse(kind, op, "has " + ordinal(op.regions.size()) + " regions",
         "it runs two: " + std::string(first) + " and " + std::string(second),
         "write each between 'region' and 'end' below the op");
}

/// Refuses a region whose inputs do not have the types of the operands from `first` on.
void expect_region_inputs(std::string_view kind, const OpView& op, size_t first,
                          const Graph& region, const std::string& what) {
  const size_t count = op.inputs.size() - first;
  if (region.inputs().size() != count)
    refuse(kind, op,
           "its " + what + " takes " + ordinal(region.inputs().size()) +
               " values and the op gives it " + ordinal(count),
           "a region reads its inputs only, one for each operand",
           "capture what it reads as an operand of the op");
  for (size_t i = 0; i < count; ++i) {
    const Value& input = region.value(region.inputs()[i]);
    if (input.type != op.inputs[first + i])
      refuse(kind, op,
             "its " + what + " takes '" + input.name + "' " + to_text(input.type) +
                 " where the op has " + to_text(op.inputs[first + i]),
             "the inputs of a region are the operands of its op, in their order",
             "give both the same type");
  }
  if (!region.variables().empty())
    refuse(kind, op,
           "its " + what + " has the variable '" + region.value(region.variables()[0].value).name +
               "'",
           "variables change once a step, regions run any number of times",
           "carry it, or capture a variable of the program");
}

std::vector<TensorType> output_types(const Graph& region) {
  std::vector<TensorType> types;
  for (const auto& [name, value] : region.outputs()) types.push_back(region.type(value));
  return types;
}

std::string types_text(const std::vector<TensorType>& types) {
  std::vector<std::string> texts;
  for (const TensorType& type : types) texts.push_back(to_text(type));
  return texts.empty() ? "nothing" : join(texts, ", ");
}

size_t carried_attribute(const OpView& op) {
  const int64_t carried = op.attributes.has("carried") ? op.attributes.integer("carried") : 0;
  if (carried < 1 || carried > std::ssize(op.inputs))
    refuse(
        kWhileKind, op,
        "carries " + std::to_string(carried) + " of its " + ordinal(op.inputs.size()) + " operands",
        "a loop that carries nothing never changes its condition",
        "set carried to the number of operands that each iteration makes anew");
  return carried;
}

std::vector<TensorType> infer_while(const OpView& op) {
  expect_regions(kWhileKind, op, "its condition", "its body");
  const size_t carried = carried_attribute(op);
  expect_region_inputs(kWhileKind, op, 0, *op.regions[0], "condition");
  expect_region_inputs(kWhileKind, op, 0, *op.regions[1], "body");
  if (const auto types = output_types(*op.regions[0]); types != std::vector{kPredicate})
    refuse(kWhileKind, op, "its condition gives " + types_text(types),
           "whether the loop goes on is one bool[]",
           "compare scalars; reduce a tensor of bools with any or all");
  const std::vector<TensorType> before(op.inputs.begin(), op.inputs.begin() + carried);
  if (const auto after = output_types(*op.regions[1]); after != before)
    refuse(kWhileKind, op,
           "carries " + types_text(before) + " and its body gives " + types_text(after),
           "what a iteration makes is what the next one takes: shapes are fixed",
           "let the body give the carried values in their order and types");
  if (op.attributes.has("max_iterations") && op.attributes.integer("max_iterations") < 0)
    refuse(
        kWhileKind, op,
        "makes at most " + std::to_string(op.attributes.integer("max_iterations")) + " iterations",
        "iterations are counted from 0", "set max_iterations to 0 or more, or leave it out");
  return before;
}

std::vector<TensorType> infer_if(const OpView& op) {
  expect_regions(kIfKind, op, "what is done when the predicate holds", "what is done else");
  if (op.inputs.empty() || op.inputs[0] != kPredicate)
    refuse(kIfKind, op, "decides by " + (op.inputs.empty() ? "nothing" : to_text(op.inputs[0])),
           "its first operand is one bool[]",
           "compare scalars; reduce a tensor of bools with any or all; select() chooses element by "
           "element");
  expect_region_inputs(kIfKind, op, 1, *op.regions[0], "first region");
  expect_region_inputs(kIfKind, op, 1, *op.regions[1], "second region");
  const std::vector<TensorType> first = output_types(*op.regions[0]),
                                second = output_types(*op.regions[1]);
  if (first != second || first.empty())
    refuse(kIfKind, op,
           "gives " + types_text(first) + " when the predicate holds and " + types_text(second) +
               " else",
           "what follows takes the results of either",
           "let both regions give the same types, at least one");
  return first;
}

// ---- cost ----

Work region_work(const Graph& region) {
  Work sum;
  for (const Op& op : region.ops()) {
    const OpView op_view = view(region, op);
    const Work work = op_view.definition->work(op_view);
    sum.flops += work.flops;
    sum.bytes += work.bytes;
  }
  return sum;
}

/// The work of max_iterations iterations; of one when nothing bounds them.
Work while_work(const OpView& op) {
  const WhileView loop = while_view(op.regions, op.attributes);
  const Work condition = region_work(loop.condition), body = region_work(loop.body);
  const auto iterations = loop.max_iterations.value_or(1);
  return {Flops((condition.flops.value() + body.flops.value()) * static_cast<double>(iterations)),
          Bytes((condition.bytes.value() + body.bytes.value()) * iterations)};
}

/// The work of the more expensive region.
Work if_work(const OpView& op) {
  const Work a = region_work(*op.regions[0]), b = region_work(*op.regions[1]);
  return {std::max(a.flops, b.flops), std::max(a.bytes, b.bytes)};
}

KernelCall no_kernel(const OpView& op, std::span<const Split>) {
  throw InternalError("'" + std::string(op.name) + "' runs its regions and has no kernel");
}

// ---- plain reference ----

void interpret_while(const ReferenceCall& call, const RunRegion& run_region) {
  const WhileView loop = while_view(call.op.regions, call.op.attributes);
  for (size_t i = 0; i < loop.carried; ++i) call.outputs[i] = *call.inputs[i];
  std::vector<const ReferenceTensor*> operands = call.inputs;
  for (size_t i = 0; i < loop.carried; ++i) operands[i] = &call.outputs[i];
  for (int64_t iteration = 0; !loop.max_iterations || iteration < *loop.max_iterations;
       ++iteration) {
    if (run_region(loop.condition, operands, iteration)[0].values[0] == 0) return;
    std::vector<ReferenceTensor> next = run_region(loop.body, operands, iteration);
    std::move(next.begin(), next.end(), call.outputs.begin());
  }
}

void interpret_if(const ReferenceCall& call, const RunRegion& run_region) {
  const bool holds = call.inputs[0]->values[0] != 0;
  call.outputs =
      run_region(*call.op.regions[holds ? 0 : 1], {call.inputs.begin() + 1, call.inputs.end()}, 0);
}

void no_reference(const ReferenceCall& call) {
  throw InternalError("'" + std::string(call.op.name) + "' runs its regions: interpret_control");
}

// ---- builders ----

/// Adds an input for each operand, named after it, in the scope of the region.
std::vector<ValueId> add_region_inputs(Builder& region, const Graph& outer,
                                       const std::vector<ValueId>& operands) {
  std::vector<ValueId> inputs;
  for (ValueId operand : operands) {
    std::string name = outer.value(operand).name;
    name.erase(0, name.rfind('.') + 1);
    inputs.push_back(region.input(name, outer.type(operand)));
  }
  return inputs;
}

/// A graph with all inputs, and with only the ops on which the outputs depend.
Graph without_unused_ops(const Graph& graph) {
  std::vector<ValueId> results;
  for (const auto& [name, value] : graph.outputs()) results.push_back(value);
  const std::vector<bool> needed = needed_for(graph, results);
  Graph copy(graph.operators());
  std::vector<ValueId> stands_for(graph.values().size());
  const auto of = [&](ValueId value) -> ValueId& { return stands_for[value.index]; };
  for (ValueId input : graph.inputs())
    of(input) = copy.add_input(graph.value(input).name, graph.type(input));
  for (const Op& op : graph.ops()) {
    if (std::none_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId value) { return needed[value.index]; }))
      continue;
    std::vector<ValueId> inputs;
    std::vector<TensorType> types;
    for (ValueId input : op.inputs) inputs.push_back(of(input));
    for (ValueId output : op.outputs) types.push_back(graph.type(output));
    const OpId added = copy.add_op(op.name, op.kind, op.attributes, std::move(inputs), types,
                                   op.role, op.origin, op.regions);
    for (size_t i = 0; i < op.outputs.size(); ++i) of(op.outputs[i]) = copy.op(added).outputs[i];
  }
  for (const auto& [name, value] : graph.outputs()) copy.add_output(name, of(value));
  return copy;
}

GraphPtr make_region(
    Builder& builder, const std::string& path, const std::vector<ValueId>& operands,
    const std::string& output_name,
    const std::function<std::vector<ValueId>(Builder&, std::vector<ValueId>)>& maker) {
  Graph graph(builder.graph().operators());
  Builder region(graph, builder.seed());
  region.derive(builder.role(), builder.origin());
  const auto scope = region.scope(path);
  const std::vector<ValueId> inputs = add_region_inputs(region, builder.graph(), operands);
  const std::vector<ValueId> outputs = maker(region, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    graph.add_output(output_name + (outputs.size() == 1 ? "" : "." + std::to_string(i)),
                     outputs[i]);
  return std::make_shared<const Graph>(without_unused_ops(graph));
}

/// The operands of a loop as values of its regions: iteration, carried, captured.
RegionValues loop_values(const std::vector<ValueId>& inputs, size_t carried) {
  const auto begin = inputs.begin() + 1, middle = begin + static_cast<std::ptrdiff_t>(carried);
  return {inputs[0], {begin, middle}, {middle, inputs.end()}};
}

std::vector<ValueId> joined(std::vector<ValueId> first, const std::vector<ValueId>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<Operator> list_control_operators() {
  return {
      {kWhileKind, PrecisionClass::kWide, infer_while, region_rule, while_work, no_kernel,
       no_reference, exact, nullptr},
      {kIfKind, PrecisionClass::kWide, infer_if, region_rule, if_work, no_kernel, no_reference,
       exact, nullptr},
  };
}

}  // namespace

std::vector<bool> needed_for(const Graph& graph, const std::vector<ValueId>& results) {
  std::vector<bool> needed(graph.values().size(), false);
  const auto of = [&](ValueId value) { return needed[value.index]; };
  for (ValueId result : results) of(result) = true;
  for (int i = static_cast<int>(graph.ops().size()) - 1; i >= 0; --i) {
    const Op& op = graph.op({i});
    if (std::any_of(op.outputs.begin(), op.outputs.end(), of))
      for (ValueId input : op.inputs) of(input) = true;
  }
  return needed;
}

WhileView while_view(const std::vector<GraphPtr>& regions, const Attributes& attributes) {
  WhileView loop{
      *regions.at(0), *regions.at(1), static_cast<size_t>(attributes.integer("carried")), {}};
  if (attributes.has("max_iterations")) loop.max_iterations = attributes.integer("max_iterations");
  return loop;
}

void interpret_control(const ReferenceCall& call, const RunRegion& run_region) {
  call.op.definition->name == kWhileKind ? interpret_while(call, run_region)
                                         : interpret_if(call, run_region);
}

Loop build_while(Builder& builder, const LoopOptions& options) {
  const std::string path = builder.graph().unique_name(builder.path(options.name));
  if (!options.condition && !options.max_iterations)
    throw UserError("while '" + path + "' has no condition and no max_iterations",
                    "nothing would end it", "give it one of them", ExitCode::kBadData);
  const ValueId zero = builder.constant(kCount, 0, std::string(options.name) + ".iteration");
  LoopParts parts{joined(joined({zero}, options.carried), options.captured),
                  1 + options.carried.size(),
                  {},
                  {}};
  parts.condition = make_region(
      builder, path + ".condition", parts.operands, "predicate", [&](Builder& region, auto inputs) {
        return options.condition
                   ? options.condition(region, loop_values(inputs, options.carried.size()))
                   : std::vector{region.constant(kPredicate, 1, "always")};
      });
  parts.body = make_region(builder, path + ".body", parts.operands, "carried",
                           [&](Builder& region, auto inputs) {
                             const std::vector<ValueId> next =
                                 options.body(region, loop_values(inputs, options.carried.size()));
                             const ValueId one = region.constant(kCount, 1, "one");
                             return joined({region.add(inputs[0], one, "next_iteration")}, next);
                           });
  move_invariants(builder, path, parts);
  Attributes attributes{{"carried", static_cast<int64_t>(parts.carried)}};
  if (options.max_iterations) attributes.set("max_iterations", *options.max_iterations);
  const std::vector<ValueId> results = builder.op(kWhileKind, parts.operands, std::move(attributes),
                                                  options.name, {parts.condition, parts.body});
  return {results.front(), {results.begin() + 1, results.end()}};
}

std::vector<ValueId> build_if(Builder& builder, const BranchOptions& options) {
  const std::string path = builder.graph().unique_name(builder.path(options.name));
  const auto region_of = [&](const std::string& name, const RegionMaker& maker) {
    return make_region(
        builder, path + name, options.captured, "result",
        [&](Builder& region, auto inputs) { return maker(region, {{}, {}, inputs}); });
  };
  const GraphPtr holds = region_of(".then", options.then_region),
                 fails = region_of(".else", options.else_region);
  return builder.op(kIfKind, joined({options.predicate}, options.captured), {}, options.name,
                    {holds, fails});
}

std::span<const Operator> control_operators() {
  static const std::vector<Operator> list = list_control_operators();
  return list;
}

}  // namespace tessera
