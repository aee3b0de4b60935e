#include "compiler/lower/internal/passes/sum_chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "compiler/placement_check/placement_check.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

/// The root of the sum of the squares of the inputs a, b, ...: a norm as the optimizer has it.
Graph norm_of(int inputs, Role role = Role::kOptimizer) {
  Graph graph;
  Builder b(graph);
  std::vector<ValueId> fed;
  for (int i = 0; i < inputs; ++i)
    fed.push_back(b.input(std::string(1, static_cast<char>('a' + i)), {DType::kF32, {8}}));
  b.derive(role, {"norm", "optimizer"});
  std::vector<ValueId> sums;
  for (ValueId input : fed)
    sums.push_back(b.reduce_sum(b.unary("square", input, graph.value(input).name + ".square"), {0},
                                graph.value(input).name + ".sum"));
  ValueId total = sums.front();
  for (size_t i = 1; i < sums.size(); ++i) total = b.add(total, sums[i], "total");
  graph.add_output("norm", b.unary("sqrt", total, "norm"));
  return graph;
}

Compiled sum_chains_compiled(const Graph& graph, const std::vector<Mark>& marks,
                             std::vector<std::string> disabled = {}) {
  disabled.push_back("combine");
  const Plan plan{.meshes = one_mesh(mesh_of("dp=2 tp=2")),
                  .disabled_passes = std::move(disabled),
                  .marks = marks};
  return compile(graph, plan, {.dump = {}, .verify_passes = true});
}

/// What is received from other ranks: "total_1 []".
std::vector<std::string> reductions(const Compiled& sum_chains_compiled) {
  std::vector<std::string> names;
  for (const Task& task : sum_chains_compiled.tasks.tasks)
    for (size_t i = 0; i < task.parts.size(); ++i)
      if (task.parts[i].exchange.kind != ReshardKind::kSlice)
        names.push_back(sum_chains_compiled.tasks.registers[task.outputs[i]].name);
  return names;
}

std::vector<Mark> divided(std::initializer_list<std::pair<const char*, const char*>> inputs) {
  std::vector<Mark> marks;
  for (const auto& [name, placement] : inputs) marks.push_back(shard_tensor(name, placement));
  return marks;
}

TEST(SumChains, WhatIsPartialOverTheSameAxisIsReducedOnce) {
  const std::vector<Mark> marks =
      divided({{"a", "P(\"tp\")"}, {"c", "P(\"tp\")"}, {"d", "P(\"tp\")"}});
  EXPECT_THAT(reductions(sum_chains_compiled(norm_of(4), marks, {"sum-chains"})),
              UnorderedElementsAre("a.sum []", "c.sum []", "d.sum []"));
  // b is whole: the first rank of the axis counts it.
  EXPECT_THAT(reductions(sum_chains_compiled(norm_of(4), marks)), ElementsAre("total_2 []"));
}

TEST(SumChains, SumsOverDifferentAxesAreReducedOnceOverAllOfThem) {
  const std::vector<Mark> marks = divided({{"a", "P(\"tp\")"},
                                           {"b", "P(\"dp\")"},
                                           {"c", "P(\"tp\")"},
                                           {"d", "P(\"dp\")"},
                                           {"e", "P((\"dp\", \"tp\"))"}});
  EXPECT_THAT(reductions(sum_chains_compiled(norm_of(6), marks)), ElementsAre("total_4 []"));
}

TEST(SumChains, OnePartialSumIsReducedAsBefore) {
  const Graph graph = norm_of(3);
  const std::vector<Mark> marks = divided({{"b", "P(\"tp\")"}});
  EXPECT_THAT(reductions(sum_chains_compiled(graph, marks)), ElementsAre("b.sum []"));
}

TEST(SumChains, WhatAnotherOpReadsOrTheProgramGivesIsReducedByItself) {
  Graph graph = norm_of(4);
  graph.add_output("part", *graph.find_value("a.sum"));
  const std::vector<Mark> marks =
      divided({{"a", "P(\"tp\")"}, {"c", "P(\"tp\")"}, {"d", "P(\"tp\")"}});
  EXPECT_THAT(reductions(sum_chains_compiled(graph, marks)),
              UnorderedElementsAre("a.sum []", "total_2 []"));
}

TEST(SumChains, OnlyTheOptimizerIsRewritten) {
  const std::vector<Mark> marks = divided({{"a", "P(\"tp\")"}, {"c", "P(\"tp\")"}});
  EXPECT_EQ(reductions(sum_chains_compiled(norm_of(3, Role::kForward), marks)).size(), 2u);
}

TEST(SumChains, AMarkedSumStaysAsItIsMarked) {
  std::vector<Mark> marks = divided({{"a", "P(\"tp\")"}, {"c", "P(\"tp\")"}});
  marks.push_back(shard_tensor("c.sum", "P()"));
  EXPECT_THAT(reductions(sum_chains_compiled(norm_of(3), marks)),
              UnorderedElementsAre("a.sum []", "c.sum []"));
}

TEST(SumChains, AWholeAddendThatEveryRankCountedIsFound) {
  const Graph graph = norm_of(3);
  Compiled made = sum_chains_compiled(graph, divided({{"a", "P(\"tp\")"}, {"c", "P(\"tp\")"}}));
  // The sum of b is read as if it were partial: two ranks would count it.
  const auto& registers = made.tasks.registers.forms();
  const auto all = registers.indices();
  for (TaskForm& task : made.tasks.tasks.forms())
    for (KernelForm& step : task.steps)
      for (RegisterFormIndex& input : step.inputs)
        if (registers[input].name.text().starts_with("b.sum ["))
          input = *std::find_if(all.begin(), all.end(), [&](RegisterFormIndex reg) {
            return registers[reg].name == "b.sum";
          });
  link(made.tasks);
  EXPECT_THAT([&] { check_placements(graph, made.tasks, 1); },
              testing::ThrowsMessage<InternalError>(testing::HasSubstr("'total")));
}

}  // namespace
}  // namespace tessera
