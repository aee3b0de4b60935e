// What the micro-batches of a rolled program read and write, compared with the program that
// unrolling makes of it; and the passes over the order, which leave a rolled program as large as it
// was.
#include "compiler/lower/internal/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/lower/internal/make_tasks.h"
#include "compiler/lower/internal/passes/arena.h"
#include "compiler/lower/internal/passes/buckets.h"
#include "compiler/lower/internal/passes/combine.h"
#include "compiler/lower/internal/passes/device_copies.h"
#include "compiler/lower/internal/passes/in_place.h"
#include "compiler/lower/internal/passes/order.h"
#include "compiler/lower/internal/passes/prefetch.h"
#include "compiler/lower/internal/program_uses.h"
#include "compiler/lower/internal/verify_program.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/testing/layers.h"
#include "compiler/lower/testing/unroll.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/micro_batches.h"
#include "task_graph/tasks/testing/unrolled.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 24, kWidth = 16;

/// Two stages of two layers each, on two ranks each that divide the rows.
Meshes two_stages() {
  Meshes meshes;
  for (Rank first : {0, 2})
    meshes.push_back({"stage" + std::to_string(first / 2),
                      std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"dp"},
                                                   std::vector<Rank>{first, first + 1})});
  return meshes;
}

/// The four layers by the passes up to the order.
Program ordered(const Graph& graph, int64_t micro_batches,
                PipelineKind kind = PipelineKind::kOneForwardOneBackward) {
  const Meshes meshes = two_stages();
  std::vector<Mark> marks = {shard_tensor("x", "P(\"dp\")")};
  for (int layer = 0; layer < 4; ++layer)
    for (const std::string op : {"y.w", "layer."})
      marks.push_back(stage(op + std::to_string(layer), "stage" + std::to_string(layer / 2)));
  const Meshes placed = micro_batches > 1 ? with_micro_batches(meshes, micro_batches) : meshes;
  Program program =
      partition(graph, propagate(graph, placed, marks), meshes, {.micro_batches = micro_batches});
  update_variables_in_place(program);
  order_instructions(program, graph, {.micro_batches = micro_batches, .kind = kind});
  return program;
}

struct Placed {
  Program program;
  ArenaPlans arenas;
};

/// By the passes up to the arena.
Placed with_arenas(const Graph& graph, int64_t micro_batches, DeviceKind last) {
  Program program = ordered(graph, micro_batches);
  exchange_in_buckets(program, Bytes(1));
  combine_exchanges(program);
  add_device_copies(program, IndexedVector<MeshIndex, DeviceKind>{DeviceKind::kHost, last});
  schedule_prefetches(program);
  ArenaPlans arenas = plan_arenas(program);
  return {std::move(program), std::move(arenas)};
}

using Times = std::vector<int>;

/// The times at which what an instruction reads is written; -1: a feed fills it.
Times writers_of_reads(const Program& unrolled, const ProgramUses& uses, InstructionIndex index) {
  Times times;
  for (RegisterFormIndex reg : unrolled.instructions[index].reads())
    times.push_back(uses.writer(reg).value());
  return times;
}
Times writers_of_reads(const Program& program, const InstanceUses& uses, Time time) {
  const InstructionInstance& instance = uses.order()[time];
  Times times;
  uses.registers().for_each_read(
      program.instructions[instance.instruction], instance.micro_batch,
      [&](RegisterIndex reg) { times.push_back(uses.writer(reg).value()); });
  return times;
}

/// The times at which what an instruction writes is read.
Times readers_of_writes(const Program& unrolled, const ProgramUses& uses, InstructionIndex index) {
  Times times;
  for (RegisterFormIndex reg : unrolled.instructions[index].writes())
    for (InstructionIndex reader : uses.readers(reg)) times.push_back(reader.value());
  return times;
}
Times readers_of_writes(const Program& program, const InstanceUses& uses, Time time) {
  const InstructionInstance& instance = uses.order()[time];
  Times times;
  uses.registers().for_each_written(program.instructions[instance.instruction],
                                    instance.micro_batch, [&](RegisterIndex reg) {
                                      for (Time reader : uses.readers(reg))
                                        times.push_back(reader.value());
                                    });
  return times;
}

void expect_uses_of_the_unrolled(const Program& program) {
  const InstanceUses uses(program);
  const Program unrolled = unroll(program);
  const ProgramUses expected(unrolled);
  ASSERT_EQ(uses.order().size(), unrolled.instructions.size());
  for (Time time : uses.order().indices()) {
    const InstructionIndex index(time.value());
    EXPECT_EQ(writers_of_reads(program, uses, time), writers_of_reads(unrolled, expected, index))
        << time.value();
    EXPECT_EQ(readers_of_writes(program, uses, time), readers_of_writes(unrolled, expected, index))
        << time.value();
  }
}

TEST(InstanceUses, AreTheUsesOfTheUnrolledProgram) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  for (const int64_t micro_batches : {1, 2, 3, 4}) {
    SCOPED_TRACE(micro_batches);
    for (const PipelineKind kind :
         {PipelineKind::kForwardThenBackward, PipelineKind::kOneForwardOneBackward,
          PipelineKind::kZeroBubbleH1})
      expect_uses_of_the_unrolled(ordered(graph, micro_batches, kind));
    expect_uses_of_the_unrolled(with_arenas(graph, micro_batches, DeviceKind::kHost).program);
    expect_uses_of_the_unrolled(with_arenas(graph, micro_batches, DeviceKind::kFake).program);
  }
}

TEST(RegisterInstances, OnlyTheCompleteSumOverMicroBatchesIsAVariable) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  const Program program = ordered(graph, 3);
  const RegisterInstances registers(program);
  for (RegisterFormIndex reg : program.registers.indices()) {
    int in_variables = 0;
    for (RegisterIndex instance : registers.at(reg))
      in_variables += registers.is_in_arena(program, instance) ? 0 : 1;
    EXPECT_EQ(in_variables, program.registers[reg].storage == Register::Storage::kVariable)
        << program.registers[reg].name;
  }
}

TEST(RolledForm, DoesNotGrowWithTheNumberOfMicroBatchesUpToTheArena) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  for (const DeviceKind last : {DeviceKind::kHost, DeviceKind::kFake}) {
    const Program two = with_arenas(graph, 2, last).program;
    for (const int64_t micro_batches : {3, 4, 12}) {
      const Program more = with_arenas(graph, micro_batches, last).program;
      EXPECT_EQ(more.instructions.size(), two.instructions.size()) << micro_batches;
      EXPECT_EQ(more.registers.size(), two.registers.size()) << micro_batches;
      EXPECT_GT(more.order.size(), two.order.size());
      EXPECT_NO_THROW(verify(more, "arena"));
    }
  }
}

TaskGraph tasks_of(const Graph& graph, int64_t micro_batches, DeviceKind last) {
  Placed placed = with_arenas(graph, micro_batches, last);
  return make_tasks(std::move(placed.program), placed.arenas);
}

TEST(RolledForm, OfATaskGraphDoesNotGrowWithTheNumberOfMicroBatches) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  for (const DeviceKind last : {DeviceKind::kHost, DeviceKind::kFake}) {
    const TaskGraph few = tasks_of(graph, 4, last);
    for (const int64_t micro_batches : {6, 12, 24}) {
      const TaskGraph more = tasks_of(graph, micro_batches, last);
      EXPECT_EQ(more.registers.forms().size(), few.registers.forms().size()) << micro_batches;
      EXPECT_EQ(more.tasks.forms().size(), few.tasks.forms().size()) << micro_batches;
      EXPECT_GT(more.tasks.size(), few.tasks.size()) << micro_batches;
      EXPECT_NO_THROW(check(more)) << micro_batches;
    }
  }
}

TEST(RolledForm, OfATaskGraphShowsWhatOneWithoutSharedFormsShows) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  for (const int64_t micro_batches : {1, 2, 4})
    for (const DeviceKind last : {DeviceKind::kHost, DeviceKind::kFake}) {
      const TaskGraph made = tasks_of(graph, micro_batches, last), plain = unrolled(made);
      EXPECT_EQ(plain.tasks.forms().size(), plain.tasks.size());
      EXPECT_EQ(to_text(plain), to_text(made)) << micro_batches;
      for (const Rank rank : ranks(made)) EXPECT_EQ(rank_text(plain, rank), rank_text(made, rank));
      EXPECT_NO_THROW(check(plain)) << micro_batches;
    }
}

/// The task graph after the passes from combine on, with each kernel in a task of its own: the
/// kernels that share tasks in all micro-batches are fewer than those that can in one of them. The
/// lines of the registers are in the order of their texts.
std::string tasks_text(Program program, const Graph& graph) {
  combine_exchanges(program);
  add_device_copies(program, IndexedVector<MeshIndex, DeviceKind>(2, DeviceKind::kHost));
  schedule_prefetches(program);
  const ArenaPlans arenas = plan_arenas(program);
  const TaskGroups groups(graph, {TaskGranularity::Kind::kOp});
  const std::string text = to_text(make_tasks(std::move(program), arenas, groups));
  const size_t tasks = text.find("\ntasks\n");
  std::vector<std::string> registers = split_text(text.substr(0, tasks), '\n');
  std::sort(registers.begin(), registers.end());
  return join(registers, "\n") + text.substr(tasks);
}

TEST(RolledForm, GetsFromThePassesAfterTheOrderWhatTheUnrolledProgramGets) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  for (const int64_t micro_batches : {1, 2, 4}) {
    for (const PipelineKind kind :
         {PipelineKind::kForwardThenBackward, PipelineKind::kEagerOneForwardOneBackward,
          PipelineKind::kZeroBubbleH1}) {
      for (const Bytes bucket : {Bytes(1), kGradientBucket}) {
        Program program = ordered(graph, micro_batches, kind);
        exchange_in_buckets(program, bucket);
        EXPECT_EQ(tasks_text(program, graph), tasks_text(unroll(program), graph))
            << micro_batches << " micro-batches, bucket of " << bucket.value();
      }
    }
  }
}

TEST(Unroll, GivesRegistersTheOffsetsOfTheirMicroBatches) {
  const Graph graph = testing_layers::square_layers(4, kRows, kWidth);
  const Program program = with_arenas(graph, 4, DeviceKind::kHost).program;
  const Program unrolled = unroll(program);
  std::vector<int64_t> planned, offsets;
  const RegisterInstances registers(program);
  for (RegisterFormIndex reg : program.registers.indices())
    for (RegisterIndex instance : registers.at(reg)) planned.push_back(program.offsets[instance]);
  for (RegisterIndex reg : RegisterInstances(unrolled).indices())
    offsets.push_back(unrolled.offsets[reg]);
  EXPECT_THAT(offsets, testing::UnorderedElementsAreArray(planned));
}

// ---- faults that verify finds ----

/// What verify says of the program of three micro-batches with another order.
template <class Change>
std::string found(const Change& change) {
  Program program = ordered(testing_layers::square_layers(4, kRows, kWidth), 3);
  change(program.order.elements());
  try {
    verify(program, "prefetch");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(VerifiedOrder, IsThatOfAPipeline) {
  EXPECT_EQ(found([](auto&) {}), "");
}

TEST(VerifiedOrder, AMicroBatchBeforeWhatItReadsIsFound) {
  EXPECT_THAT(found([](auto& order) { std::reverse(order.begin(), order.end()); }),
              testing::HasSubstr("reads a register that nothing filled before"));
}

TEST(VerifiedOrder, AMicroBatchThatIsLeftOutIsFound) {
  EXPECT_THAT(found([](auto& order) {
                const auto last = std::find_if(order.begin(), order.end(),
                                               [](const auto& it) { return it.micro_batch == 2; });
                order.erase(last);
              }),
              testing::HasSubstr("reads a register that nothing filled before"));
}

TEST(VerifiedOrder, AMicroBatchThatIsExecutedTwiceIsFound) {
  EXPECT_THAT(found([](auto& order) {
                const auto last = std::find_if(order.begin(), order.end(),
                                               [](const auto& it) { return it.micro_batch == 2; });
                order.insert(last, *last);
              }),
              testing::HasSubstr("writes a register that is filled already"));
}

}  // namespace
}  // namespace tessera
