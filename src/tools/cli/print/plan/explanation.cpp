#include "tools/cli/print/plan/explanation.h"

#include <algorithm>
#include <span>

#include "base/text/number_list.h"
#include "base/text/text.h"
#include "ir/ops/operator.h"
#include "sharding/reshard/reshard_plans.h"
#include "sharding/reshard/reshard_table.h"

namespace tessera {
namespace {

TensorType local_type_of(const TensorType& type, const DistAttr& attr) {
  return {type.dtype, attr.local_shape(type.shape, attr.mesh->coordinate_at(0))};
}

TensorType largest_type_of(const TensorType& type, const DistAttr& attr) {
  return {type.dtype, attr.local_shape(type.shape, attr.mesh->largest_shard_coordinate())};
}

/// Of the rank that receives most; among many ranks, of those that may (examined_receivers).
struct ReceivedBytes {
  Bytes actual{0};
  Bytes smallest{0};
};

ReceivedBytes received_bytes(const TensorType& type, const Exchange& exchange) {
  // The senders of a rank may be all others, so that the time is the square of the ranks.
  constexpr size_t kAllOf = 256;
  const Mesh& mesh = *exchange.to.mesh;
  const bool examines_all = mesh.ranks().size() <= kAllOf;
  int64_t actual = 0, smallest = 0;
  for (Rank rank : examines_all ? mesh.ranks() : examined_receivers(mesh)) {
    actual = std::max(actual, received_elements(type.shape, {exchange}, rank));
    smallest =
        std::max(smallest, min_received_elements(type.shape, exchange.from, exchange.to, rank));
  }
  return {Bytes(actual * size_of(type.dtype)), Bytes(smallest * size_of(type.dtype))};
}

/// The need for the exchange. The part's reason is "'y' is FROM, op 'z' needs TO". FROM is printed
/// separately, and the result of an all-reduce is "the full sum".
std::string need_text(const ExchangePart& part, const std::string& value) {
  const Exchange& exchange = part.exchange;
  const std::string source = "'" + value + "' is " + to_text(exchange.from) + ", ";
  std::string text =
      part.reason.starts_with(source) ? part.reason.substr(source.size()) : part.reason;
  const std::string target = "needs " + to_text(exchange.to);
  const bool is_all_reduce = !exchange.from.partial.empty() && exchange.to.partial.empty() &&
                             exchange.from.dims == exchange.to.dims;
  if (is_all_reduce && text.ends_with(target))
    text.replace(text.size() - target.size(), target.size(), "needs the full sum");
  return text;
}

/// The value of a register: "y [@dp, *]" is a resharded copy of y, and names have no spaces.
std::string value_name(const Register& reg) {
  return reg.name.text().substr(0, reg.name.text().find(' '));
}

OperandFacts operand_facts(const Graph& graph, const ShardedGraph& sharded, ValueId value,
                           const DistAttr& wanted, std::string role, bool is_input) {
  const TensorType& type = graph.type(value);
  const DistAttr& attr = sharded.at(value);
  OperandFacts facts{std::move(role), facts_of(graph, sharded, value), to_text(wanted),
                     to_text(local_type_of(type, wanted)), ""};
  if (!(attr == wanted))
    facts.reshard = is_input ? to_text(classify(type.shape, attr, wanted))
                             : to_text(classify(type.shape, wanted, attr));
  return facts;
}

/// "stage1, ranks 2-3"; "" where there is one mesh.
std::string stage_text(const Meshes& meshes, int mesh) {
  if (meshes.size() < 2) return "";
  const NamedMesh& named = meshes[static_cast<size_t>(mesh)];
  std::span<const Rank> ranks = named.mesh->ranks();
  // With micro-batches as the first axis, the ranks of the first micro-batch come first.
  if (named.mesh->axes().front() == kMicroBatchAxis)
    ranks = ranks.first(ranks.size() / static_cast<size_t>(named.mesh->shape()[0]));
  return named.name + (ranks.size() == 1 ? ", rank " : ", ranks ") + number_list(ranks);
}

}  // namespace

std::string reason_text(const ValueFacts& facts) {
  return facts.reason.empty() ? "replicated: no mark reaches it" : facts.reason;
}

std::string kind_text(const CommunicationFacts& facts) {
  return facts.axes.empty() ? facts.kind : facts.kind + " over " + facts.axes;
}

ValueFacts facts_of(const Graph& graph, const ShardedGraph& sharded, ValueId value) {
  const TensorType& type = graph.type(value);
  const DistAttr& attr = sharded.at(value);
  const TensorType local = local_type_of(type, attr);
  return {graph.value(value).name,
          to_text(type, attr),
          attr.mesh->ranks().front(),
          to_text(local),
          byte_size(local),
          byte_size(largest_type_of(type, attr)),
          sharded.value_reasons[value.index]};
}

std::vector<CommunicationFacts> communications_of(const TaskGraph& tasks) {
  std::vector<CommunicationFacts> list;
  ReshardTable<ReceivedBytes> known;
  int64_t number = 0;
  for (TaskId id : tasks.order) {
    const Task& task = tasks.tasks[id];
    for (size_t i = 0; i < task.parts.size(); ++i) {
      const Exchange& exchange = task.parts[i].exchange;
      const Register& source = tasks.registers[task.inputs[i]];
      const std::string value = value_name(source);
      const ReceivedBytes& bytes = known.get(source.type, exchange.from, exchange.to,
                                             [&] { return received_bytes(source.type, exchange); });
      list.push_back({task.role, std::string(to_text(exchange.kind)), value, to_text(exchange.from),
                      to_text(exchange.to), join(changed_axes(exchange), ","), bytes.actual,
                      bytes.smallest, need_text(task.parts[i], value), number, task.mesh,
                      task.outputs[i]});
    }
    number += task.parts.empty() ? 0 : 1;
  }
  return list;
}

OpFacts facts_of(const Graph& graph, const ShardedGraph& sharded, OpId id) {
  const Op& op = graph.op(id);
  const OpView op_view = view(graph, op);
  const ShardingRule& rule = sharded.rules[id.index];
  const OpSharding& sharding = sharded.at(id);
  OpFacts facts{to_text(graph, id), stage_text(sharded.meshes, sharded.stages.ops[id.index]), {}};
  for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i)
    facts.operands.push_back(operand_facts(graph, sharded, op.inputs[i],
                                           input_attr(op_view, rule, sharding, i),
                                           "input " + std::to_string(i), true));
  for (int i = 0; i < static_cast<int>(op.outputs.size()); ++i)
    facts.operands.push_back(operand_facts(graph, sharded, op.outputs[i],
                                           output_attr(op_view, rule, sharding, i),
                                           "result " + std::to_string(i), false));
  return facts;
}

}  // namespace tessera
