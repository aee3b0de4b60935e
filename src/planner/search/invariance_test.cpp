// What the planner answers does not depend on names. What the search for placements answers does
// not depend on the order of the ops either.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/placement/placement_search.h"
#include "planner/search/find_plan.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

/// A topological order of the ops at random.
std::vector<OpId> random_order(const Graph& graph, std::mt19937& random) {
  std::vector<int> missing(graph.ops().size(), 0);
  std::vector<OpId> ready, order;
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    for (ValueId input : graph.op({i}).inputs) missing[i] += graph.value(input).producer.index >= 0;
    if (missing[i] == 0) ready.push_back({i});
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const OpId next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (ValueId output : graph.op(next).outputs)
      for (OpId user : graph.value(output).users)
        if (--missing[user.index] == 0) ready.push_back(user);
  }
  return order;
}

/// The same program with its ops in another order, and other names.
class Scrambled {
 public:
  Scrambled(const Graph& graph, const std::vector<OpId>& order, bool renames, uint32_t seed)
      : graph_(graph), renames_(renames), random_(seed), made_(graph.operators()) {
    for (ValueId input : graph.inputs())
      put(input, made_.add_input(renamed(graph.value(input).name), graph.type(input)));
    for (const Variable& variable : graph.variables()) {
      const ValueId old = variable.value;
      put(old,
          made_.add_variable(renamed(graph.value(old).name), graph.type(old), variable.initializer,
                             variable.trainable, origin(variable.origin)));
    }
    for (OpId op : order) add(graph.op(op));
    for (const auto& [name, value] : graph.outputs()) made_.add_output(name, at(value));
    for (const Variable& variable : graph.variables())
      if (variable.next) made_.set_next(at(variable.value), at(*variable.next));
    verify(made_);
  }

  Graph take() { return std::move(made_); }

 private:
  std::string renamed(const std::string& name) {
    if (!renames_ || name.empty()) return name;
    std::string& found = names_[name];
    if (found.empty())
      found = "n" + std::to_string(random_()) + "." + std::to_string(names_.size());
    return found;
  }
  Origin origin(const Origin& old) { return {renamed(old.source), old.derivation}; }
  void put(ValueId old, ValueId value) { values_[old] = value; }
  ValueId at(ValueId old) const { return values_.at(old); }

  void add(const Op& op) {
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs) inputs.push_back(at(input));
    std::vector<TensorType> types;
    for (ValueId output : op.outputs) types.push_back(graph_.type(output));
    const OpId made = made_.add_op(renamed(op.name), op.kind, op.attributes, std::move(inputs),
                                   types, op.role, origin(op.origin), op.regions);
    for (size_t i = 0; i < op.outputs.size(); ++i) put(op.outputs[i], made_.op(made).outputs[i]);
  }

  const Graph& graph_;
  const bool renames_;
  std::mt19937 random_;
  std::map<std::string, std::string> names_;
  std::map<ValueId, ValueId> values_;
  Graph made_;
};

std::vector<OpId> same_order(const Graph& graph) {
  std::vector<OpId> order;
  for (int i = 0; i < std::ssize(graph.ops()); ++i) order.push_back({i});
  return order;
}

struct Named {
  std::string name;
  Graph graph;
};

std::vector<Named> networks() {
  std::vector<Named> list;
  for (const char* kind : {"mlp", "gpt", "llama", "encoder_decoder"}) {
    ModelConfig model{.kind = kind, .context = 8, .layers = 2, .width = 32, .heads = 4};
    if (std::string(kind) != "mlp") model.vocabulary = 64;
    list.push_back({kind, training_graph(network_of(model), {}, 8, 1)});
  }
  return list;
}

PlanSearchResult result_of(const Graph& graph, const Cluster& cluster) {
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.excludes = false;
  return find_plan({graph, cluster}, options);
}

using Row = std::tuple<std::string, int64_t, int64_t>;  // name, nanoseconds of a step, memory

std::vector<Row> rows_of(const PlanSearchResult& result) {
  std::vector<Row> rows;
  for (const EvaluatedCandidate& candidate : result.candidates)
    rows.emplace_back(candidate.candidate.name, std::llround(1e9 * candidate.step().value()),
                      candidate.fullest.memory.all().value());
  return rows;
}

TEST(PlannerInvariance, NamesDoNotCount) {
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  for (const auto& [name, graph] : networks()) {
    const Graph renamed = Scrambled(graph, same_order(graph), true, 7).take();
    EXPECT_EQ(rows_of(result_of(graph, cluster)), rows_of(result_of(renamed, cluster))) << name;
  }
}

MeshPtr mesh_of(Shape shape, std::vector<std::string> axes) {
  return std::make_shared<const Mesh>(std::move(shape), std::move(axes));
}

// The passes before the search follow the order of the ops: they merge what is alive.
TEST(PlannerInvariance, TheOrderOfTheOpsDoesNotChangeWhatTheSearchFinds) {
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  std::mt19937 random(11);
  for (const MeshPtr& mesh : {mesh_of({4}, {"x"}), mesh_of({2, 2}, {"x", "y"})}) {
    const CostModel cost = cost_of(identity_mapping(cluster, 4), std::vector{mesh});
    for (const auto& [name, graph] : networks()) {
      const auto wanted = search_placements(graph, mesh, cost, {});
      ASSERT_TRUE(wanted);
      for (uint32_t seed = 1; seed <= 3; ++seed) {
        const Graph other = Scrambled(graph, random_order(graph, random), true, seed).take();
        const auto found = search_placements(other, mesh, cost, {});
        ASSERT_TRUE(found);
        // Every cost is rounded to picoseconds, of fewer than 1000 nodes.
        EXPECT_NEAR(1e12 * found->time.value(), 1e12 * wanted->time.value(), 1000) << name;
        EXPECT_NEAR(1e12 * found->bound.value(), 1e12 * wanted->bound.value(), 1000) << name;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
