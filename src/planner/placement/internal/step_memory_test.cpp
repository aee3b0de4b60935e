// What a step holds under placements that are written out. Values have 4096 bytes, 1024 in parts of
// four.
#include "planner/placement/internal/step_memory.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "ir/ops/builder.h"

namespace tessera {
namespace {

constexpr int kWhole = 4096, kPart = 1024;

TensorType values() {
  return {DType::kF32, {32, 32}};
}

/// A graph and the placements of all that its ops make and read: "*" is whole, "0" and "1" are
/// parts of this dim, "+" is a partial sum.
class Step {
 public:
  Graph graph;
  Builder builder{graph};

  /// An element-wise op, whose result may be written over its operands.
  ///   inputs  with the placements in which it reads them
  ValueId op(const std::string& name, const std::vector<std::pair<ValueId, char>>& inputs,
             char made, Role role = Role::kForward) {
    builder.derive(role, {});
    const ValueId a = inputs.front().first;
    const ValueId result =
        inputs.size() == 1 ? builder.mul_scalar(a, 2, name) : builder.add(a, inputs[1].first, name);
    std::vector<const DistAttr*>& operands = placed_.operands.emplace_back();
    operands.push_back(placement(made));
    for (const auto& [value, wanted] : inputs) operands.push_back(placement(wanted));
    return result;
  }
  ValueId input(char canonical_placement) {
    return with_canonical(builder.input("x", values()), canonical_placement);
  }
  ValueId variable(char canonical_placement) {
    return with_canonical(builder.variable("w", values(), Initializer::constant(0)),
                          canonical_placement);
  }
  void copies_by_pass(ValueId value) { by_pass_[value.index] = true; }

  StepRegisters registers() {
    placed_.canonical_placements.resize(graph.values().size(), nullptr);
    placed_.copies.assign(graph.values().size(), ReplicaLifetime::kStep);
    for (const auto& [value, canonical_placement] : canonical_placements_)
      placed_.canonical_placements[value] = canonical_placement;
    for (const auto& [value, by_pass] : by_pass_) placed_.copies[value] = ReplicaLifetime::kPass;
    return registers_of(placed_, may_write_over(), plans_);
  }
  int64_t peak(std::optional<Bytes> bucket = {}) {
    return peak_of(registers(), may_write_over(),
                   {bucket, std::vector<int64_t>(graph.ops().size(), workspace)})
        .value();
  }
  /// The exchanges, as "x [@a, *] > [*, *]".
  std::vector<std::string> exchanges() {
    const StepRegisters step = registers();
    std::vector<std::string> list;
    for (const StepInstruction& each : step.instructions) {
      if (!each.is_exchange()) continue;
      const StepRegister &from = step.registers[each.reads.front()],
                         &to = step.registers[each.writes.front()];
      list.push_back(graph.values()[from.value].name + " " + to_text(*from.placement) + " > " +
                     to_text(*to.placement));
    }
    return list;
  }

  bool writes_over = false;
  int64_t workspace = 0;

 private:
  MayWriteOver may_write_over() const {
    MayWriteOver list;
    for (const Op& op : graph.ops()) list.emplace_back(op.inputs.size(), writes_over);
    return list;
  }
  ValueId with_canonical(ValueId value, char canonical_placement) {
    canonical_placements_[value.index] = placement(canonical_placement);
    return value;
  }
  const DistAttr* placement(char text) {
    switch (text) {
      case '0': return &known_.emplace_back(from_placements(mesh_, 2, {Shard(0)}));
      case '1': return &known_.emplace_back(from_placements(mesh_, 2, {Shard(1)}));
      case '+': return &known_.emplace_back(from_placements(mesh_, 2, {Partial()}));
      default: return &known_.emplace_back(DistAttr::replicated(mesh_, 2));
    }
  }

  MeshPtr mesh_ = std::make_shared<const Mesh>(parse_mesh("a=4"));
  ReshardPlans plans_{{}};
  std::deque<DistAttr> known_;  // pointers to them stay valid
  std::map<int, const DistAttr*> canonical_placements_;
  std::map<int, bool> by_pass_;
  PlacedStep placed_{graph, {}, {}, {}};
};

using Texts = std::vector<std::string>;

TEST(StepMemory, ReadersInOnePlacementShareWhatIsHeldThere) {
  Step step;
  const ValueId x = step.input('0');
  const ValueId y = step.op("y", {{x, '*'}}, '*');
  step.op("z", {{x, '*'}, {y, '*'}}, '*');
  EXPECT_EQ(step.exchanges(), (Texts{"x [@a, *] > [*, *]"}));
  EXPECT_EQ(step.peak(), 3 * kWhole);  // at z: x whole, y and z
}

TEST(StepMemory, AReaderThatWantsAValueAsItIsMadeTakesNoPartOfACopy) {
  Step step;
  const ValueId x = step.input('0');
  step.op("y", {{x, '*'}}, '*');
  step.op("z", {{x, '0'}}, '0');
  EXPECT_EQ(step.exchanges(), (Texts{"x [@a, *] > [*, *]"}));
  // The part lives until z, the whole copy and y until y.
  EXPECT_EQ(step.peak(), kPart + 2 * kWhole);
}

// Without this the whole copy would be held with u and z.
TEST(StepMemory, ACopyLivesUntilItsLastReader) {
  Step step;
  const ValueId x = step.input('0');
  const ValueId y = step.op("y", {{x, '*'}}, '0');
  const ValueId u = step.op("u", {{y, '*'}}, '*');
  step.op("v", {{u, '*'}, {x, '0'}}, '*');
  // At y: x, x whole, y. At u: x, y whole, u; the part of y was read last by the exchange.
  EXPECT_EQ(step.peak(), kPart + 2 * kWhole);
}

TEST(StepMemory, APlacementThatSeveralReadersNeedIsMadeFirstWhereAllTakeLessSo) {
  Step step;
  const ValueId x = step.input('0');
  const ValueId y = step.op("y", {{x, '1'}}, '1');
  const ValueId z = step.op("z", {{x, '*'}}, '*');
  step.op("u", {{y, '*'}, {z, '*'}}, '*');
  EXPECT_EQ(step.exchanges(),
            (Texts{"x [@a, *] > [*, *]", "x [*, *] > [*, @a]", "y [*, @a] > [*, *]"}));
}

TEST(StepMemory, AResultIsWrittenOverAnOperandThatIsReadLast) {
  Step step;
  step.writes_over = true;
  const ValueId y = step.op("y", {{step.input('*'), '*'}}, '*');
  step.op("z", {{y, '*'}}, '*');
  EXPECT_EQ(step.peak(), kWhole);
}

TEST(StepMemory, NoResultIsWrittenOverWhatOtherRanksRead) {
  Step step;
  step.writes_over = true;
  const ValueId x = step.input('0');
  const ValueId y = step.op("y", {{x, '1'}}, '1');
  step.op("z", {{x, '0'}}, '0');
  step.op("u", {{y, '1'}}, '1');
  EXPECT_EQ(step.peak(), 3 * kPart);  // at z: x, from which y was made, y and z
}

TEST(StepMemory, AWorkspaceIsHeldWhileItsKernelRuns) {
  Step step;
  step.workspace = 100;  // 128 with alignment
  step.op("y", {{step.input('*'), '*'}}, '*');
  EXPECT_EQ(step.peak(), 2 * kWhole + 128);
}

TEST(StepMemory, ANextValueThatIsMadeAtHomeIsWrittenOverItsVariable) {
  Step step;
  step.writes_over = true;
  const ValueId w = step.variable('0');
  step.graph.set_next(w, step.op("next", {{w, '0'}}, '0', Role::kOptimizer));
  EXPECT_EQ(step.peak(), kPart);
}

// It is exchanged after all ops.
TEST(StepMemory, ANextValueThatIsMadeElsewhereLivesToTheEndOfTheStep) {
  Step step;
  const ValueId x = step.input('*');
  const ValueId w = step.variable('0');
  step.graph.set_next(w, step.op("next", {{w, '1'}}, '1', Role::kOptimizer));
  const ValueId y = step.op("y", {{x, '*'}}, '*', Role::kOptimizer);
  step.op("z", {{y, '*'}}, '*', Role::kOptimizer);
  EXPECT_EQ(step.peak(), kPart + kPart + 2 * kWhole);  // w, next, x and y or y and z
}

TEST(StepMemory, CopiesThatLiveForAPassAreMadeAnewInEachPass) {
  Step step;
  const ValueId w = step.variable('0');
  const ValueId y = step.op("y", {{w, '*'}}, '*');
  step.op("z", {{w, '*'}, {y, '*'}}, '*', Role::kBackward);
  EXPECT_EQ(step.exchanges().size(), 1);
  step.copies_by_pass(w);
  EXPECT_EQ(step.exchanges(), (Texts{"w [@a, *] > [*, *]", "w [@a, *] > [*, *]"}));
}

/// Two gradients, each whole partial sums of which the optimizer reads parts.
void add_gradients(Step& step) {
  const ValueId x = step.input('*');
  const ValueId g = step.op("g", {{x, '*'}}, '+', Role::kBackward);
  const ValueId h = step.op("h", {{x, '*'}}, '+', Role::kBackward);
  step.op("sum", {{g, '0'}, {h, '0'}}, '0', Role::kOptimizer);
}

TEST(StepMemory, GradientsAreExchangedAfterTheLastOneOfTheirBucket) {
  Step step;
  add_gradients(step);
  EXPECT_EQ(step.peak(), 3 * kWhole);                       // x, g and h
  EXPECT_EQ(step.peak(Bytes(2 * kWhole)), 3 * kWhole);      // both are exchanged after h
  EXPECT_EQ(step.peak(Bytes(kWhole)), 2 * kWhole + kPart);  // g before h is made
}

}  // namespace
}  // namespace tessera
