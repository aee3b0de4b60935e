// What the planner answers does not depend on names. What the search for placements answers does
// not depend on the order of the ops either.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "cluster/cluster_file.h"
#include "network/family.h"
#include "network/graphs.h"
#include "search/find_plan.h"
#include "search/placement_source.h"

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

PlanningAnswer answer_of(const Graph& graph, const Cluster& cluster) {
  PlanningOptions options{.constraints = constraints_of(4, false)};
  options.excludes = false;
  return find_plan({graph, cluster}, options);
}

using Row = std::tuple<std::string, int64_t, int64_t>;  // name, nanoseconds of a step, memory

std::vector<Row> rows_of(const PlanningAnswer& answer) {
  std::vector<Row> rows;
  for (const EvaluatedCandidate& candidate : answer.candidates)
    rows.emplace_back(candidate.candidate.name, std::llround(1e9 * candidate.step().value()),
                      candidate.fullest.memory.all().value());
  return rows;
}

TEST(PlannerInvariance, NamesDoNotCount) {
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  for (const auto& [name, graph] : networks()) {
    const Graph renamed = Scrambled(graph, same_order(graph), true, 7).take();
    EXPECT_EQ(rows_of(answer_of(graph, cluster)), rows_of(answer_of(renamed, cluster))) << name;
  }
}

/// By candidate of the search: the time and the bound of its problem, in picoseconds.
std::map<std::string, std::pair<double, double>> searched(const Graph& graph,
                                                          const Cluster& cluster) {
  const PlanRequest request{graph, cluster};
  PlacementSource source;
  std::map<std::string, std::pair<double, double>> found;
  for (const Candidate& candidate : source(request, constraints_of(4, false), {}))
    found[candidate.name] = {1e12 * candidate.problem->time.value(),
                             1e12 * candidate.problem->bound.value()};
  return found;
}

TEST(PlannerInvariance, TheOrderOfTheOpsDoesNotChangeWhatTheSearchFinds) {
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  std::mt19937 random(11);
  for (const auto& [name, graph] : networks()) {
    const auto wanted = searched(graph, cluster);
    ASSERT_FALSE(wanted.empty());
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      const Graph other = Scrambled(graph, random_order(graph, random), true, seed).take();
      for (const auto& [candidate, times] : searched(other, cluster)) {
        const auto same = wanted.find(candidate);
        if (same == wanted.end()) continue;  // it has the placements of another candidate
        // Every cost is rounded to picoseconds, of fewer than 1000 nodes.
        EXPECT_NEAR(times.first, same->second.first, 1000) << name << " " << candidate;
        EXPECT_NEAR(times.second, same->second.second, 1000) << name << " " << candidate;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
