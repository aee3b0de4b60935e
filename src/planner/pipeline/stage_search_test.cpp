#include "planner/pipeline/stage_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/pipeline/pipeline_simulator.h"
#include "planner/presets/presets.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

Graph small_gpt(int layers, int vocabulary = 64) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = vocabulary,
                                      .context = 32,
                                      .layers = layers,
                                      .width = 128,
                                      .heads = 4,
                                      .dropout = 0});
  return training_graph(network, {}, 8, 1);
}

/// A model in the divisions dp=2, tp=2, ... of presets; each has every size that divides.
class Divided {
 public:
  Divided(Graph graph, int ranks, const std::vector<std::string>& axes = {"dp", "tp"})
      : graph_(std::move(graph)), sequence_(layer_sequence(graph_, ranks)) {
    add_model("dp", 1);
    stage_shardings_.push_back({&models_.at("dp"), mesh("dp", 1)});
    for (const std::string& axis : axes) {
      add_model(axis, 2);
      for (int size = 2; size < ranks; ++size)
        stage_shardings_.push_back({&models_.at(axis), mesh(axis, size)});
    }
  }

  const LayerSequence& sequence() const { return sequence_; }
  const std::vector<StageSharding>& stage_shardings() const { return stage_shardings_; }
  const Graph& graph() const { return graph_; }

 private:
  static MeshPtr mesh(const std::string& axis, int size) {
    return std::make_shared<const Mesh>(Shape{size}, std::vector{axis});
  }
  void add_model(const std::string& axis, int size) {
    const Plan plan = preset_plan(parse_preset(axis + "=" + std::to_string(size)), graph_);
    models_.try_emplace(
        axis, graph_,
        propagate(graph_, with_micro_batches(one_mesh(mesh(axis, size)), 2), plan.marks), graph_,
        sequence_);
  }

  const Graph graph_;
  const LayerSequence sequence_;
  std::map<std::string, DividedModel> models_;
  std::vector<StageSharding> stage_shardings_;
};

/// The least time on the clock of all contiguous cuts, runs of ranks, stage shardings and
/// schedules.
class Exhaustive {
 public:
  Exhaustive(const Divided& divided, const Deployment& deployment,
             const StageSearchOptions& options)
      : divided_(divided), runs_(deployment), options_(options) {
    for (int64_t count : options.micro_batches) {
      const SegmentCosts costs(divided.sequence(), divided.stage_shardings(), deployment, runs_,
                               count);
      PipelineChoice choice;
      choice.micro_batches = count;
      extend(costs, 0, 0, choice);
    }
  }
  double seconds() const { return min_; }
  int64_t tried() const { return tried_; }

 private:
  void extend(const SegmentCosts& costs, int unit, Rank rank, PipelineChoice& choice) {
    const int units = divided_.sequence().units();
    if (unit == units && rank == runs_.ranks() && choice.stages.size() > 1) return finish(choice);
    if (unit == units || rank == runs_.ranks()) return;
    for (const int size : runs_.sizes_at(rank))
      for (int end = unit + 1; end <= units; ++end)
        for (int stage_sharding : costs.stage_shardings(runs_.kind(rank, size))) {
          const int kind = runs_.kind(rank, size);
          choice.stages.push_back(
              {unit, end, rank, stage_sharding, costs.price(kind, stage_sharding, unit, end),
               costs.transfer(stage_sharding, unit, rank), costs.capacity(kind)});
          extend(costs, end, rank + size, choice);
          choice.stages.pop_back();
        }
  }
  void finish(PipelineChoice& choice) {
    for (const PipelineKind schedule : options_.schedules) {
      ++tried_;
      if (const auto simulated = simulate_pipeline(divided_.sequence(), choice, schedule))
        min_ = std::min(min_, simulated->seconds);
    }
  }

  const Divided& divided_;
  const DeviceRuns runs_;
  const StageSearchOptions options_;
  double min_ = std::numeric_limits<double>::infinity();
  int64_t tried_ = 0;
};

StageSearchOptions all_of(std::vector<int64_t> counts) {
  return {.micro_batches = std::move(counts),
          .schedules = {PipelineKind::kOneForwardOneBackward, PipelineKind::kZeroBubbleH1,
                        PipelineKind::kZeroBubbleH2}};
}

struct Case {
  std::string name;
  Graph graph;
  std::string cluster;
  int ranks = 2;
  double share = 0;  // of the bytes that the fastest pipeline needs; 0: all that a device has
};

std::vector<Case> cases() {
  const Network mlp = network_of({.kind = "mlp", .context = 8, .layers = 6, .width = 256});
  const Network branches = network_of({.kind = "two_tower",
                                       .vocabulary = 512,
                                       .context = 16,
                                       .layers = 1,
                                       .width = 64,
                                       .heads = 4});
  return {
      {"mlp", training_graph(mlp, {}, 64, 1), "4xv100", 4},
      {"gpt", small_gpt(2), "4xv100", 3},
      {"gpt with a wide vocabulary", small_gpt(2, 16384), "4xv100", 3},
      {"two device speeds", small_gpt(1), "1x2xv100-16g+1x2xp100;ib=100Gb", 4},
      {"slow network", small_gpt(1), "2x2xv100-16g;ib=1Gb", 4},
      {"two branches", training_graph(branches, {}, 16, 1), "4xv100", 3},
      {"binding memory", small_gpt(2), "4xv100", 3, 0.85},
      {"binding memory of two speeds", small_gpt(1), "1x2xv100-16g+1x2xp100;ib=100Gb", 4, 0.85}};
}

/// The most that a found pipeline holds on a rank, in the estimate.
double peak_on(Rank rank, const std::vector<PipelineChoice>& found,
               const std::vector<StageSharding>& stage_shardings) {
  double largest = 0;
  for (const PipelineChoice& choice : found) {
    const std::vector<double> bytes = simulated_memory(choice);
    for (size_t s = 0; s < choice.stages.size(); ++s) {
      const StageChoice& stage = choice.stages[s];
      if (rank >= stage.first &&
          rank < stage.first + stage_shardings[stage.stage_sharding].mesh->size())
        largest = std::max(largest, bytes[s]);
    }
  }
  return largest;
}

/// The cluster with n bytes of each device for values; 0: all that they have.
Cluster with_memory(const Cluster& cluster, double bytes) {
  ClusterDescription description = cluster.description();
  for (DeviceType& type : description.types)
    if (bytes > 0) type.memory = type.reserve + Bytes(static_cast<int64_t>(bytes));
  return Cluster(description);
}

TEST(StageSearch, IsWithinAPercentOfAllCutsRunsStageShardingsAndSchedules) {
  for (const Case& item : cases()) {
    const Divided divided(item.graph, item.ranks);
    const StageSearchOptions options = all_of({2, 4});
    const Cluster large = parse_cluster_line(item.cluster);
    const Deployment free = identity_mapping(large, item.ranks);
    StageSearch unlimited(divided.sequence(), divided.stage_shardings(), free, options);
    const PipelineChoice fastest = unlimited.best().front();
    const Cluster cluster =
        with_memory(large, item.share * std::ranges::max(simulated_memory(fastest)));
    const Deployment deployment = identity_mapping(cluster, item.ranks);
    const Exhaustive all(divided, deployment, options);
    const std::vector<PipelineChoice> found =
        StageSearch(divided.sequence(), divided.stage_shardings(), deployment, options).best();
    ASSERT_FALSE(found.empty()) << item.name;
    EXPECT_LE(found.front().seconds, 1.01 * all.seconds()) << item.name << " " << all.tried();
    EXPECT_GE(found.front().seconds, all.seconds() * (1 - 1e-9)) << item.name;
    if (item.share > 0) {
      EXPECT_GT(found.front().seconds, fastest.seconds) << item.name << " binds";
    }
  }
}

// The rows of the batch are 8, those of what is summed over pairs of them 4.
TEST(DividedModel, AllowsMicroBatchesThatDivideAllThatIsDividedByThem) {
  const Divided divided(parse_graph("input x: f32[8,4]\n"
                                    "variable w: f32[4,4] = normal(0.0, 0.02)\n"
                                    "y = dot_general(x, w) {spec=\"bi,io->bo\"}: f32[8,4]\n"
                                    "pairs = reshape(y) {shape=[4, 2, 4]}: f32[4,2,4]\n"
                                    "s = reduce(pairs) {dims=[1], op=\"sum\"}: f32[4,4]\n"
                                    "output s = s\n"),
                        2, {});
  const DividedModel& model = *divided.stage_shardings().front().model;
  EXPECT_TRUE(model.allows(2));
  EXPECT_TRUE(model.allows(4));
  EXPECT_FALSE(model.allows(3));
  EXPECT_FALSE(model.allows(8));
}

TEST(LayerSequence, ABranchDoesNotFollowTheOneBeforeIt) {
  const Network branches = network_of({.kind = "two_tower",
                                       .vocabulary = 512,
                                       .context = 16,
                                       .layers = 2,
                                       .width = 64,
                                       .heads = 4});
  const Graph graph = training_graph(branches, {}, 16, 1);
  const LayerSequence sequence = layer_sequence(graph, 4);
  int begin = 1;
  while (begin < sequence.units() && sequence.reads_from(0, begin, begin + 1)) ++begin;
  EXPECT_LT(begin, sequence.units());  // the first unit of the second branch
  EXPECT_TRUE(sequence.reads_from(0, begin, sequence.units()));
}

TEST(LayerSequence, BranchesEndWhereAnotherOneBeginsOrTheyAreJoined) {
  using Run = LayerSequence::Run;
  const auto branches_of = [](std::vector<std::vector<int>> reads) {
    const std::vector<int> begins(reads.size(), 0);
    return LayerSequence{.begins = begins, .reads = std::move(reads)}.branches();
  };
  EXPECT_EQ(branches_of({{}, {0, 1}, {1, 2}}), (std::vector<Run>{}));
  EXPECT_EQ(branches_of({{}, {0}, {}, {1}}), (std::vector<Run>{})) << "labels have no gradient";
  EXPECT_EQ(branches_of({{}, {0}, {2}, {2}, {1, 3}, {4}}), (std::vector<Run>{{0, 2}, {2, 4}}));
  // An encoder, and a decoder whose layers read it, too.
  EXPECT_EQ(branches_of({{}, {0}, {}, {1, 2}, {3}, {1, 4}}), (std::vector<Run>{{0, 2}, {2, 3}}));
  // A third branch begins after the join of two.
  EXPECT_EQ(branches_of({{}, {}, {0, 1}, {}, {2, 3}}), (std::vector<Run>{{0, 1}, {1, 2}, {3, 4}}));
}

TEST(LayerSequence, UnitsOfAGptFollowEachOtherAndWhatCrossesIsTheResidual) {
  const Graph graph = small_gpt(2);
  const LayerSequence sequence = layer_sequence(graph, 4);
  ASSERT_GE(sequence.units(), 4);
  for (int unit = 1; unit < sequence.units(); ++unit) {
    EXPECT_TRUE(sequence.reads_from(0, unit, sequence.units())) << unit;
    EXPECT_GT(sequence.begins[unit], sequence.begins[unit - 1]);
  }
  // f32[8, 32, 128] in the middle of the model.
  EXPECT_EQ(sequence.cut_bytes[sequence.units() / 2], Bytes(4 * 8 * 32 * 128));
}

// Both images that are kept for the stage sharding up cross each boundary between them.
TEST(LayerSequence, UnitsOfAnEncoderAndADecoderShareTheTableOfTokens) {
  EXPECT_TRUE(layer_sequence(small_gpt(2), 4).shared.empty());
  const Network network = network_of({.kind = "encoder_decoder",
                                      .vocabulary = 64,
                                      .context = 32,
                                      .layers = 1,
                                      .width = 128,
                                      .heads = 4});
  const Graph graph = training_graph(network, {}, 8, 1);
  const LayerSequence sequence = layer_sequence(graph, 4);
  ASSERT_EQ(sequence.shared.size(), 1U);
  const int owner = sequence.shared[0].owner, reader = sequence.shared[0].reader;
  EXPECT_LT(owner, reader);
  EXPECT_EQ(sequence.shared[0].bytes, Bytes(64 * 128 * 4));
}

TEST(LayerSequence, AUnetMayBeCutInTheMiddle) {
  const Network unet = network_of(
      {.kind = "unet", .classes = 4, .image = {1, 24, 24}, .layers = 2, .width = 12, .dropout = 0});
  const Graph graph = training_graph(unet, {}, 8, 1);
  const LayerSequence sequence = layer_sequence(graph, 2);
  const auto unit_of = [&](const std::string& name) {
    return sequence.unit_of_op[graph.find_op(name).value().index];
  };
  EXPECT_LT(unit_of("bottom.conv2.conv"), unit_of("up.0.block.conv1.conv"));
}

std::vector<int> sizes_at(const std::string& cluster, int ranks, Rank first) {
  const Cluster machines = parse_cluster_line(cluster);
  return DeviceRuns(identity_mapping(machines, ranks)).sizes_at(first);
}

TEST(DeviceRuns, OfFewRanksAreAllAndOfMoreThoseThatDivideMachines) {
  EXPECT_EQ(sizes_at("8xv100", 8, 3), (std::vector<int>{1, 2, 3, 4, 5}));
  const std::string four = "4x4xv100-16g;ib=10Gb";
  EXPECT_EQ(sizes_at(four, 16, 0), (std::vector<int>{1, 2, 4, 8, 16}));
  EXPECT_EQ(sizes_at(four, 16, 2), (std::vector<int>{1, 2}));
  EXPECT_EQ(sizes_at(four, 16, 4), (std::vector<int>{1, 2, 4, 8}));
}

TEST(DeviceRuns, OfUnlikeDevicesOrLinksAreOfUnlikeKinds) {
  const Cluster cluster = parse_cluster_line("1x2xv100-16g+1x2xp100;ib=100Gb");
  const DeviceRuns runs(identity_mapping(cluster, 4));
  EXPECT_EQ(runs.kind(0, 1), runs.kind(1, 1));
  EXPECT_NE(runs.kind(1, 1), runs.kind(2, 1));  // v100, p100
  EXPECT_NE(runs.kind(0, 2), runs.kind(1, 2));  // in a machine, across
}

TEST(StageSearch, WithoutMicroBatchesOrUnitsThereAreNoTwoStagesOnADevice) {
  const Divided divided(small_gpt(2), 2, {});
  const Cluster cluster = parse_cluster_line("2xv100");
  const Deployment deployment = identity_mapping(cluster, 2);
  StageSearch search(divided.sequence(), divided.stage_shardings(), deployment, all_of({4}));
  PipelineChoice choice = search.best().at(0);
  ASSERT_FALSE(search.with_two_stages(choice).empty());
  choice.micro_batches = 1;
  EXPECT_TRUE(search.with_two_stages(choice).empty());
}

// A second stage receives from the device after its own in a V, and the first one of the second
// round from the last device.
TEST(SegmentCosts, WhatArrivesTakesTheLinkFromTheStageBefore) {
  const Divided divided(small_gpt(2), 4);
  const Cluster cluster = parse_cluster_line("2x2xv100-16g;ib=1Gb");
  const Deployment deployment = identity_mapping(cluster, 4);
  const SegmentCosts costs(divided.sequence(), divided.stage_shardings(), deployment,
                           DeviceRuns(deployment), 4);
  constexpr int kUnit = 2;
  const double bytes = static_cast<double>(divided.sequence().cut_bytes[kUnit].value()) / 4;
  for (const auto& [from, to] :
       std::vector<std::pair<Rank, Rank>>{{0, 1}, {1, 0}, {1, 2}, {2, 1}, {3, 0}, {3, 1}, {3, 2}}) {
    const LinkCost link = cluster.link(deployment.device(from), deployment.device(to));
    EXPECT_DOUBLE_EQ(costs.transfer(0, kUnit, to, from, 1),
                     link.latency.value() + bytes / link.bytes_per_second)
        << from << " to " << to;
  }
  EXPECT_EQ(costs.transfer(0, kUnit, 2, 2, 1), 0) << "it stays on the device";
}

/// The least time on the clock of all cuts with two stages on each device of a pipeline, in turn or
/// in a V.
class AllSplits {
 public:
  AllSplits(const Divided& divided, const Deployment& deployment, const PipelineChoice& pipeline,
            PipelineKind schedule)
      : divided_(divided),
        runs_(deployment),
        costs_(divided.sequence(), divided.stage_shardings(), deployment, runs_,
               pipeline.micro_batches),
        choice_(pipeline) {
    std::vector<StageChoice> second = pipeline.stages;
    if (schedule != PipelineKind::kInterleaved) std::ranges::reverse(second);
    choice_.stages.insert(choice_.stages.end(), second.begin(), second.end());
    choice_.schedule = schedule;
    extend(0, 0);
  }
  double seconds() const { return min_; }
  int64_t tried() const { return tried_; }

 private:
  void extend(size_t stage, int first) {
    const size_t last = choice_.stages.size() - 1;
    const auto later = static_cast<int>(last - stage);
    const int units = divided_.sequence().units();
    for (int end = stage < last ? first + 1 : units; end <= units - later; ++end) {
      StageChoice& each = choice_.stages[stage];
      const int kind =
          runs_.kind(each.first, divided_.stage_shardings()[each.stage_sharding].mesh->size());
      each.first_unit = first;
      each.end_unit = end;
      each.cost = costs_.price(kind, each.stage_sharding, first, end);
      if (stage > 0) {
        const StageChoice& before = choice_.stages[stage - 1];
        each.transfer =
            costs_.transfer(each.stage_sharding, first, each.first, before.first,
                            divided_.stage_shardings()[before.stage_sharding].mesh->size());
      }
      each.capacity = costs_.capacity(kind);
      if (stage < last)
        extend(stage + 1, end);
      else
        finish();
    }
  }
  void finish() {
    ++tried_;
    if (!clock_) clock_.emplace(choice_);
    if (const PipelineSimulator::Step step = clock_->run(choice_); step.missing == 0)
      min_ = std::min(min_, step.seconds);
  }

  const Divided& divided_;
  const DeviceRuns runs_;
  const SegmentCosts costs_;
  PipelineChoice choice_;
  std::optional<PipelineSimulator> clock_;
  double min_ = std::numeric_limits<double>::infinity();
  int64_t tried_ = 0;
};

/// Compares the fastest cuts that are found with all cuts, under each schedule.
void check_splits(const Divided& divided, const Deployment& deployment, StageSearch& search,
                  const PipelineChoice& pipeline, const std::string& name) {
  const std::vector<PipelineChoice> found = search.with_two_stages(pipeline);
  if (found.empty()) {
    const AllSplits all(divided, deployment, pipeline, PipelineKind::kVHalf);
    EXPECT_EQ(all.seconds(), std::numeric_limits<double>::infinity()) << name;
  }
  for (const PipelineChoice& split : found) {
    const AllSplits all(divided, deployment, pipeline, split.schedule);
    EXPECT_LE(split.seconds, 1.01 * all.seconds()) << name << " " << all.tried();
    EXPECT_GE(split.seconds, all.seconds() * (1 - 1e-9)) << name << " " << all.tried();
  }
}

/// Of n units and stages.
double count_of_cuts(int units, int stages) {
  double count = 1;  // units - 1 over stages - 1
  for (int i = 1; i < stages; ++i) count *= static_cast<double>(units - i) / i;
  return count;
}

TEST(StageSearch, TwoStagesOnADeviceAreWithinAPercentOfAllCuts) {
  constexpr double kCutsOfATest = 20'000;
  int checked = 0;
  for (const Case& item : cases()) {
    const Divided divided(item.graph, item.ranks);
    const Cluster cluster = parse_cluster_line(item.cluster);
    const Deployment deployment = identity_mapping(cluster, item.ranks);
    for (int stages = 2; stages <= item.ranks; ++stages) {
      if (count_of_cuts(divided.sequence().units(), 2 * stages) > kCutsOfATest) continue;
      StageSearchOptions options = all_of({4, 8});
      options.stages = stages;
      StageSearch search(divided.sequence(), divided.stage_shardings(), deployment, options);
      const PipelineChoice pipeline = search.best().at(0);
      const std::string name = item.name + " " + std::to_string(stages);
      check_splits(divided, deployment, search, pipeline, name);
      ++checked;
      if (item.share == 0) continue;
      const PipelineChoice split = search.with_two_stages(pipeline).at(0);
      const Cluster small =
          with_memory(cluster, item.share * std::ranges::max(simulated_memory(split)));
      const Deployment limited = identity_mapping(small, item.ranks);
      StageSearch again(divided.sequence(), divided.stage_shardings(), limited, options);
      check_splits(divided, limited, again, pipeline, name + ", less memory");
    }
  }
  EXPECT_GE(checked, 10);
}

TEST(StageSearch, TwoStagesOnADeviceAreTriedForEveryStageShardingThatAllStagesCanHave) {
  const Divided divided(small_gpt(4), 4);
  const Cluster cluster = parse_cluster_line("4xv100");
  const Deployment deployment = identity_mapping(cluster, 4);
  StageSearchOptions few = all_of({2});
  few.stages = 2;
  few.max_results = few.effort.simulated = 1;  // of best(): one chain
  StageSearch search(divided.sequence(), divided.stage_shardings(), deployment, few);
  ASSERT_FALSE(search.best().empty());
  const std::vector<PipelineChoice> found = search.best_with_two_stages(1);
  for (int stage_sharding = 0; stage_sharding < std::ssize(divided.stage_shardings());
       ++stage_sharding) {
    if (divided.stage_shardings()[stage_sharding].mesh->size() != 2) continue;
    const auto has_it = [&](const PipelineChoice& choice) {
      return std::ranges::all_of(choice.stages, [&](const StageChoice& stage) {
        return stage.stage_sharding == stage_sharding;
      });
    };
    EXPECT_TRUE(std::ranges::any_of(found, has_it))
        << to_text(*divided.stage_shardings()[stage_sharding].mesh);
  }
}

TEST(StageSearch, KeepsTheStagesOfARankWithinWhatIsLeftOfItsMemory) {
  const Divided divided(small_gpt(2), 3);
  const Cluster cluster = parse_cluster_line("4xv100");
  const Deployment deployment = identity_mapping(cluster, 3);
  StageSearch search(divided.sequence(), divided.stage_shardings(), deployment, all_of({2, 4}));
  const std::vector<PipelineChoice> free = search.best();
  ASSERT_FALSE(free.empty());
  for (const Rank rank : {0, 1, 2}) {
    const double limit = 0.9 * peak_on(rank, free, divided.stage_shardings());
    std::vector<double> reserved_memory(3, 0);
    reserved_memory[rank] = free.front().stages.front().capacity - limit;
    search.reserve_memory(reserved_memory);
    const std::vector<PipelineChoice> found = search.best();
    ASSERT_FALSE(found.empty()) << rank;
    EXPECT_LE(peak_on(rank, found, divided.stage_shardings()), limit) << rank;
    EXPECT_GE(found.front().seconds, free.front().seconds) << rank;
    const std::vector<PipelineChoice> near = search.neighbours(found.front());
    EXPECT_LE(peak_on(rank, near, divided.stage_shardings()), limit) << rank;
  }
  search.reserve_memory(std::vector<double>(3, free.front().stages.front().capacity));
  EXPECT_TRUE(search.best().empty());
  search.reserve_memory({});
  EXPECT_EQ(search.best().front().seconds, free.front().seconds);
}

}  // namespace
}  // namespace tessera
