// Runs that offload the state of the optimizer: the bits, the memory of a rank, and what the copies
// overlap with, on the simulated clock and on ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "base/testing/waits.h"
#include "cluster/cluster/cluster_file.h"
#include "planner/presets/presets.h"
#include "simulator/step/step_prediction.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/checkpointing.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// A preset whose plan offloads all state, of which `window` is in memory at once.
Plan offloading(const RunConfig& config, const std::string& preset, Bytes window) {
  Plan plan = preset_plan(parse_preset(preset), training_graph(config));
  plan.offload = {Offload::Kind::kState, {}};
  plan.offload_window = window;
  return plan;
}

Plan in_memory(const RunConfig& config, const std::string& preset) {
  return preset_plan(parse_preset(preset), training_graph(config));
}

/// Names of the variables whose bits differ.
std::vector<std::string> different(const TensorMap& a, const TensorMap& b) {
  std::vector<std::string> names;
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    if (other == b.end() || value.type() != other->second.type() ||
        std::memcmp(value.data(), other->second.data(), byte_size(value.type()).value()) != 0)
      names.push_back(name);
  }
  return names;
}

bool is_state(const Variable& variable) {
  return !variable.trainable && variable.origin.derivation == "optimizer";
}

/// Bytes of optimizer state of the whole model.
Bytes state_of(const Graph& graph) {
  Bytes sum{0};
  for (const Variable& variable : graph.variables())
    if (is_state(variable)) sum += byte_size(graph.type(variable.value));
  return sum;
}

// ---- results ----

struct Case {
  const char* model;
  const char* preset;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
};

class OffloadedRun : public testing::TestWithParam<Case> {};

TEST_P(OffloadedRun, HasTheBitsOfTheRunInMemory) {
  const auto& [model, preset, optimizer] = GetParam();
  RunConfig config = tiny_run(model);
  config.optimizer.kind = optimizer;
  Engine expected(config, in_memory(config, preset), small_text());
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) losses.push_back(expected.step().loss);
  // One variable at a time, a few of them, and all.
  for (const Bytes window : {Bytes(0), Bytes(20'000), kOffloadWindow}) {
    SCOPED_TRACE(to_text(window));
    Engine offloaded(config, offloading(config, preset, window), small_text());
    for (const double loss : losses) EXPECT_EQ(offloaded.step().loss, loss);
    EXPECT_THAT(different(expected.variables(), offloaded.variables()), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, OffloadedRun,
                         testing::Values(Case{"gpt", "dp=1"}, Case{"gpt", "dp=2,zero=3"},
                                         Case{"gpt_tied", "pp=2,dp=2,zero=1"},
                                         Case{"mlp", "dp=2,accumulate=2,recompute=full"},
                                         Case{"mlp", "tp=2", OptimizerKind::kMuon}),
                         [](const auto& given) {
                           std::string name = std::string(given.param.model) + "_" +
                                              given.param.preset + "_" +
                                              std::string(to_text(given.param.optimizer));
                           for (char& letter : name)
                             if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
                           return name;
                         });

TEST(OffloadedRuns, OfAPatternMovesItsVariablesAlone) {
  const RunConfig config = tiny_mlp();
  Plan plan = in_memory(config, "dp=2");
  plan.offload = {Offload::Kind::kPatterns, {"*.exp_avg_sq"}};
  const Graph graph = training_graph(config);
  const TaskGraph tasks = compile(graph, plan).tasks;
  size_t moved = 0;
  for (const TaskVariable& variable : tasks.variables) {
    const bool is_moved =
        device_of(tasks, tasks.registers[variable.value].mesh) == DeviceKind::kFile;
    EXPECT_EQ(is_moved, variable.name.ends_with(".exp_avg_sq")) << variable.name;
    moved += is_moved;
  }
  EXPECT_GT(moved, 0u);
}

TEST(OffloadedRuns, GoesOnFromACheckpointOfARunInMemoryAndBack) {
  const RunConfig config = tiny_mlp();
  const Plan plans[] = {in_memory(config, "dp=2"), offloading(config, "dp=2", Bytes(0))};
  Engine whole(config, plans[0], small_text());
  for (int step = 0; step < 4; ++step) whole.step();
  for (const bool begins_offloaded : {false, true}) {
    SimulatedDisk disk;
    Engine first(config, plans[begins_offloaded], small_text());
    for (int step = 0; step < 2; ++step) first.step();
    CheckpointFolder folder(disk, "c");
    save_checkpoint(first, folder, 0);
    Engine second(config, plans[!begins_offloaded], small_text(),
                  {.runtime = {}, .initialize = false});
    restore(second, Checkpoint(disk, find_checkpoint(disk, "c")));
    for (int step = 0; step < 2; ++step) second.step();
    EXPECT_THAT(different(whole.variables(), second.variables()), IsEmpty());
  }
}

TEST(OffloadedRuns, StaysWhenARunGoesOnUnderAnotherPlan) {
  const RunConfig config = tiny_mlp();
  Engine whole(config, in_memory(config, "dp=2"), small_text());
  Engine switched(config, in_memory(config, "dp=2"), small_text());
  for (int step = 0; step < 3; ++step) {
    whole.step();
    switched.step();
    if (step == 0) switched.switch_plan(offloading(config, "dp=2", Bytes(0)));
    if (step == 1) switched.switch_plan(in_memory(config, "dp=2"));
  }
  EXPECT_THAT(different(whole.variables(), switched.variables()), IsEmpty());
}

TEST(OffloadedRuns, SplitStepsHaveTheSameBits) {
  const RunConfig config = tiny_mlp();
  Engine expected(config, in_memory(config, "dp=2"), small_text());
  Engine offloaded(config, offloading(config, "dp=2", Bytes(0)), small_text());
  for (Engine* engine : {&expected, &offloaded}) {
    for (const Batch& batch : engine->dataloader(2)) engine->accumulate(batch);
    engine->apply_gradients();
    engine->step();
  }
  EXPECT_THAT(different(expected.variables(), offloaded.variables()), IsEmpty());
}

TEST(OffloadedRuns, NamesTheFolderThatHasNoRoom) {
  const RunConfig config = tiny_mlp();
  EngineOptions options;
  options.runtime.file_device.folder = "/does/not/exist";
  try {
    Engine engine(config, offloading(config, "dp=2", Bytes(0)), small_text(), options);
    FAIL() << "it is made";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot make the file of offloaded state in "
                                        "/does/not/exist\n  why: the system says: No such file"));
    EXPECT_THAT(error.what(), HasSubstr("fix: set TMPDIR"));
  }
}

// ---- memory ----

// Both variables of Adam of a parameter are used together, so with a window of 0 the rank keeps at
// most the two largest. A ring loses less than one more at its end.
TEST(OffloadedRuns, TakesTheStateOutOfTheMemoryOfARankButForTheWindow) {
  RunConfig config = tiny_gpt();
  config.model.width = 64;
  const Graph graph = training_graph(config);
  int64_t largest = 0;
  for (const Variable& variable : graph.variables())
    if (is_state(variable))
      largest = std::max(largest, byte_size(graph.type(variable.value)).value());
  const Engine memory(config, in_memory(config, "dp=2"), small_text());
  const Engine file(config, offloading(config, "dp=2", Bytes(0)), small_text());
  const int64_t saved = (memory.runtime().peak_bytes() - file.runtime().peak_bytes()).value();
  const int64_t state = state_of(graph).value();
  EXPECT_LE(saved, state);
  EXPECT_GE(saved, state - 3 * largest) << "state " << state << ", largest " << largest;
}

// ---- overlap ----

/// A device of one core of a common machine, with the default rates.
Cluster cluster_of(const std::string& rates) {
  return parse_cluster(parse_toml(R"(
[device.core]
kind = "npu"
memory = "4 GB"
rates = {)" + rates + R"(}
[[machine]]
count = 1
device = "core"
devices = 2
links = [{name = "link", bandwidth = "5 GB/s", latency = "1 us", sharing = "switch"}]
)",
                                  "core.toml"),
                       "core.toml");
}

struct Overlap {
  double copies = 0, covered = 0;  // seconds of all ranks
  double share() const { return covered / copies; }
};

/// How much of the time of the copies kernels of the same rank run, in all steps of the timeline.
Overlap overlap_of(const Timeline& timeline) {
  Overlap overlap;
  for (const Track& copies : timeline.tracks) {
    if (!copies.stream.starts_with("copies")) continue;
    for (const Track& acts : timeline.tracks) {
      if (acts.rank != copies.rank || acts.stream != "acts") continue;
      for (const Span& copy : copies.spans) {
        if (copy.kind != Span::Kind::kCopy) continue;
        overlap.copies += (copy.end - copy.begin).value();
        for (const Span& act : acts.spans) {
          const Seconds begin = std::max(copy.begin, act.begin), end = std::min(copy.end, act.end);
          if (act.kind == Span::Kind::kAct && begin < end) overlap.covered += (end - begin).value();
        }
      }
    }
  }
  return overlap;
}

RunConfig gpt_of_several_layers() {
  RunConfig config = tiny_gpt();
  config.model.layers = 6;
  config.model.width = 64;
  return config;
}

/// Eight of the largest variables of a model.
constexpr Bytes kSmallWindow{8 * 64 * 256 * 4};

TEST(OffloadedRuns, CopiesOverlapWithKernelsOnTheSimulatedClock) {
  const RunConfig config = gpt_of_several_layers();
  const Cluster cluster =
      cluster_of(R"(arithmetic = "20 Gflop/s", memory = "5 GB/s", copies = "10 GB/s")");
  for (const char* preset : {"dp=1", "dp=2", "dp=2,zero=1"}) {
    SCOPED_TRACE(preset);
    const Plan plan = offloading(config, preset, kSmallWindow);
    const Graph graph = training_graph(config);
    const auto tasks = std::make_shared<const TaskGraph>(compile(graph, plan).tasks);
    EXPECT_LT(memory_needs(*tasks, identity_mapping(cluster, plan.rank_count())).front().variables,
              state_of(graph));
    const Overlap overlap =
        overlap_of(predict_step(tasks, identity_mapping(cluster, plan.rank_count()),
                                {.uses_rank_symmetry = false})
                       .timeline);
    EXPECT_GT(overlap.copies, 0);
    EXPECT_GE(overlap.share(), 0.8);
    RecordProperty(std::string("overlap ") + preset, std::to_string(overlap.share()));
  }
}

TEST(OffloadedRuns, TheSimulatedStepWaitsForASlowFile) {
  const RunConfig config = gpt_of_several_layers();
  const auto tasks = std::make_shared<const TaskGraph>(
      compile(training_graph(config), offloading(config, "dp=1", kSmallWindow)).tasks);
  const auto step_with = [&](const std::string& rate) {
    const Cluster cluster =
        cluster_of(R"(arithmetic = "20 Gflop/s", memory = "5 GB/s", file = ")" + rate + "\"");
    return predict_step(tasks, identity_mapping(cluster, 1), {.uses_rank_symmetry = false});
  };
  const StepPrediction slow = step_with("10 MB/s");
  // What is read and written at 10 MB/s each takes at least this long.
  const double smallest = static_cast<double>(state_of(training_graph(config)).value()) / 1e7;
  EXPECT_GE(slow.step.value(), smallest);
  // Kernels take less than half of it, so they cannot hide more than half of either stream.
  EXPECT_LT(step_with("10 GB/s").step.value(), smallest / 2);
  EXPECT_LT(overlap_of(slow.timeline).share(), 0.5);
}

/// Counts the acts that compute, and holds copies until acts have begun.
class HeldCopies : public ActDelay {
 public:
  explicit HeldCopies(const TaskGraph& graph) : graph_(graph) {}

  void begin(Rank, const TaskGraph& graph, TaskId task) override {
    if (graph.tasks[task].kind == Task::Kind::kCompute) ++begun_;
  }
  void end(Rank, const TaskGraph&, TaskId) override {}

  void begin_step() {
    begun_ = reads_ = writes_ = 0;
    is_in_step_ = true;
  }
  /// Of the first read of the step, until all acts have begun that come before its use; of the
  /// first write, until one has begun that comes after the act that made what is written. How many
  /// have begun by now does not count: the thread of the writes may run late.
  void hold(bool is_read) {
    if (!is_in_step_ || (is_read ? reads_++ : writes_++) > 0) return;
    const int until = is_read ? acts_before_the_first_use() : acts_until_the_first_write() + 1;
    EXPECT_TRUE(comes_true([&] { return begun_ >= until; }))
        << "no act begins beside a " << (is_read ? "read" : "write");
  }
  /// The acts that compute until one reads what was copied.
  int acts_before_the_first_use() const {
    int acts = 0;
    for (const TaskId id : graph_.order) {
      const Task& task = graph_.tasks[id];
      if (task.kind != Task::Kind::kCompute) continue;
      for (const RegisterIndex input : task.inputs)
        if (graph_.tasks[graph_.registers[input].producer].kind == Task::Kind::kCopy) return acts;
      ++acts;
    }
    return acts;
  }
  /// The acts that compute up to the one that made what is written first.
  int acts_until_the_first_write() const {
    for (const TaskId copy : graph_.order)
      if (graph_.tasks[copy].kind == Task::Kind::kCopy)
        for (const RegisterIndex input : graph_.tasks[copy].inputs)
          if (const TaskId made = graph_.registers[input].producer;
              graph_.tasks[made].kind == Task::Kind::kCompute)
            return acts_up_to(made);
    return 0;
  }
  int reads() const { return reads_; }
  int writes() const { return writes_; }

 private:
  int acts_up_to(TaskId last) const {
    int acts = 0;
    for (const TaskId id : graph_.order) {
      acts += graph_.tasks[id].kind == Task::Kind::kCompute;
      if (id == last) break;
    }
    return acts;
  }

  const TaskGraph& graph_;
  std::atomic<bool> is_in_step_{false};
  std::atomic<int> begun_{0}, reads_{0}, writes_{0};
};

// How much of the time of the copies kernels cover is a matter of the simulated clock, above. Here,
// a copy does not end before kernels run beside it: a rank that waits for its copies never ends.
TEST(OffloadedRuns, KernelsRunWhileCopiesAreInFlight) {
  RunConfig config = gpt_of_several_layers();
  config.model.layers = 3;
  const auto graph = std::make_shared<const TaskGraph>(
      compile(training_graph(config), offloading(config, "dp=1", kSmallWindow)).tasks);
  const auto held = std::make_shared<HeldCopies>(*graph);
  EXPECT_GE(held->acts_before_the_first_use(), 2) << "the forward and the backward pass";
  EXPECT_GT(held->acts_until_the_first_write(), held->acts_before_the_first_use());
  RuntimeOptions options;
  options.file_device.delay = [&](bool is_read) { held->hold(is_read); };
  options.delay = held;
  Runtime runtime(ranks(*graph), options);
  LoadedProgram& program = runtime.load(graph);
  runtime.initialize(program, 1);
  TensorMap inputs, results;
  std::map<std::string, const Tensor*> given;
  for (const TaskInput& input : graph->inputs) inputs.emplace(input.name, Tensor(input.type));
  for (const auto& [name, tensor] : inputs) given[name] = &tensor;
  for (int step = 0; step < 3; ++step) {
    held->begin_step();
    runtime.run(program, given, results);
    EXPECT_GT(held->reads(), 10);
    EXPECT_GT(held->writes(), 10);
  }
}

}  // namespace
}  // namespace tessera
