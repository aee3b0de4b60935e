// Errors of combined parallelism that change numbers without a message. docs/silent_errors.md says
// who reported each of them. For each a run of ours equals the serial program, and the same run
// with the error in it does not: the verification names the value that the error changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

using Elements = std::vector<float>;

/// What every rank put into every register of f32.
class Recording {
 public:
  explicit Recording(const TaskGraph& tasks) : tasks_(tasks) {}

  void add(Rank rank, RegisterIndex reg, const Elements& elements) {
    const std::lock_guard lock(mutex_);
    fills_[{tasks_.registers[reg].name.text(), rank}] = elements;
  }
  /// throws  std::out_of_range when the rank has no such register
  const Elements& at(const std::string& reg, Rank rank) const { return fills_.at({reg, rank}); }

 private:
  const TaskGraph& tasks_;
  std::mutex mutex_;
  std::map<std::pair<std::string, Rank>, Elements> fills_;
};

/// What a rank puts into a register in place of `elements`.
using Error = std::function<void(Elements& elements, Rank rank, const Recording& right)>;

struct SilentError {
  std::string name;
  std::string model, plan;
  std::string reg;  // that is wrong, and that the verification names
  Error error;
};

Error scaled(float factor) {
  return [=](Elements& elements, Rank, const Recording&) {
    for (float& element : elements) element *= factor;
  };
}
/// Of one rank alone.
Error on_rank(Rank wrong, Error error) {
  return [=](Elements& elements, Rank rank, const Recording& right) {
    if (rank == wrong) error(elements, rank, right);
  };
}
/// Another register of the same rank.
Error replaced_by(std::string reg) {
  return [=](Elements& elements, Rank rank, const Recording& right) {
    elements = right.at(reg, rank);
  };
}
/// The same register of another rank.
Error that_of_rank(const std::string& reg, Rank other) {
  return [=](Elements& elements, Rank, const Recording& right) { elements = right.at(reg, other); };
}
Error reversed() {
  return [](Elements& elements, Rank, const Recording&) {
    std::reverse(elements.begin(), elements.end());
  };
}
/// The mean of the means of two ranks, which have a total and a count each, in place of the mean
/// of all.
void take_mean_of_means(Elements& elements, Rank, const Recording& right) {
  float means = 0;
  for (const Rank rank : {0, 1})
    means += right.at("second.sum", rank).at(0) / right.at("second.count", rank).at(0);
  elements.at(0) = means / 2;
}
/// Rows of the second of three micro-batches, on two ranks, by the count of that micro-batch in
/// place of a third of the count of all.
void divide_by_own_count(Elements& elements, Rank, const Recording& right) {
  const auto count = [&](const char* reg) {
    return right.at(reg, 0).at(0) + right.at(reg, 1).at(0);
  };
  const float factor = count("second.count") / (3 * count("second.count #1"));
  for (float& element : elements) element *= factor;
}

struct Given {
  Network network;
  TrainingSettings settings;
  std::shared_ptr<const RunData> data;
};

/// "distances": a regression whose rows have weights 0 and 1, so that equal parts of a batch have
/// different counts; "resnet20"; the others as tiny_run.
Given run_of(const std::string& model) {
  if (model == "distances") return {distance_network(), distance_settings(), pairs_of_points()};
  RunConfig config = tiny_run(model);
  if (model != "resnet20")
    return {network_of(config.model), training_settings(config), small_text()};
  config = read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / "resnet20.toml",
                       {"train.batch=8"});
  const auto data = std::make_shared<RunData>(load_data(config.data, {}));
  set_sizes(config.model, *data);
  return {network_of(config.model), training_settings(config), data};
}

std::vector<SilentError> silent_errors() {
  const std::string norm = "blocks.0.norm1.weight_rows.grad.x";
  return {
      {"TheMeanOfTheMeansOfRanks", "distances", "dp=2", "second.loss []", take_mean_of_means},
      {"AMicroBatchIsDividedByItsOwnCount", "distances", "dp=2,micro_batches=3",
       "second.squares.grad.b #1", divide_by_own_count},
      {"ARepeatedRowThatFillsUpARankCounts", "gpt", "dp=3", "loss.total", on_rank(2, scaled(1.5F))},
      {"AGradientIsScaledByTheSizeOfAFurtherAxis", "gpt", "dp=2,sp=2", norm + " [*]", scaled(2)},
      {"ANormWeightUnderSequenceParallelismIsNotSummed", "gpt", "dp=2,sp=2", norm + " [*]",
       replaced_by(norm)},
      {"TheGradientNormCountsReplicasOncePerRank", "gpt", "tp=2",
       "clip.blocks.0.norm1.weight.sum [] {partial sum: tp}",
       on_rank(1, that_of_rank("clip.blocks.0.norm1.weight.sum [] {partial sum: tp}", 0))},
      {"TheGradientNormIsThatOfTheShardsOfARank", "gpt", "tp=2", "clip.sum_35 []",
       replaced_by("clip.sum_35")},
      {"TheGradientNormLeavesOutAnotherStage", "gpt", "pp=2,micro_batches=2",
       "clip.tokens.weight.sum [] on stage1", scaled(0)},
      {"TheGradientNormCountsATiedWeightInBothStages", "gpt_tied", "pp=2,micro_batches=2",
       "clip.tokens.weight.sum [] on stage1", scaled(2)},
      {"ATiedWeightHasTheGradientOfOneUse", "gpt_tied", "pp=2,micro_batches=2",
       "head.dot.grad.b [*, *] on stage0", scaled(0)},
      {"DropoutRepeatsOnDataParallelRanks", "gpt", "dp=2", "blocks.0.dropout1.draw",
       on_rank(1, that_of_rank("blocks.0.dropout1.draw", 0))},
      {"DropoutDiffersOnTensorParallelRanks", "gpt", "tp=2", "blocks.0.dropout1.draw",
       on_rank(1, reversed())},
      {"RecomputationHasOtherRandomNumbers", "gpt", "dp=2,recompute=full",
       "blocks.0.dropout2.draw.recompute", reversed()},
      {"RecomputationUpdatesRunningStatisticsTwice", "resnet20", "dp=2,recompute=full",
       "bn1.running_mean_next", scaled(1.9F)},
      {"OnlyTheLastMicroBatchTrains", "gpt", "dp=2,micro_batches=4", "head.dot.grad.b",
       replaced_by("head.dot.grad.b #3")},
      {"AStageReadsTheActivationsOfAnotherMicroBatch", "gpt", "pp=2,micro_batches=2",
       "blocks.0.residual2 [*, *, *] #1 on stage1",
       replaced_by("blocks.0.residual2 [*, *, *] #0 on stage1")},
      {"ReplicasDrift", "gpt", "dp=2", "blocks.0.ffn.up.weight.adamw.next",
       on_rank(1, scaled(1.000001F))},
      {"GradientsOfABucketTradePlaces", "gpt", "dp=2,zero=1",
       "blocks.0.attn.q.bias_rows.grad.x [@dp, *]",
       replaced_by("blocks.0.attn.k.bias_rows.grad.x [@dp, *]")},
      {"AGatheredParameterIsThatOfTheStepBefore", "gpt", "dp=2,zero=1",
       "blocks.0.ffn.up.weight.adamw.next", replaced_by("blocks.0.ffn.up.weight")},
  };
}

/// Does something with the elements of f32 of every register that was filled.
Observer on_elements(const TaskGraph& tasks,
                     const std::function<void(Rank, RegisterIndex, Elements&)>& use) {
  return [&tasks, use](Rank rank, RegisterIndex index, const Coordinate& coordinate,
                       const std::byte* data) {
    const Register& reg = tasks.registers[index];
    if (reg.type->dtype != DType::kF32) return;
    Elements elements(
        static_cast<size_t>(element_count(reg.attr.local_shape(reg.type->shape, coordinate))));
    std::memcpy(elements.data(), data, elements.size() * sizeof(float));
    use(rank, index, elements);
    std::memcpy(const_cast<std::byte*>(data), elements.data(), elements.size() * sizeof(float));
  };
}

class EverySilentError : public testing::TestWithParam<SilentError> {};

TEST_P(EverySilentError, IsAbsentAndIsFoundWhenPlanted) {
  const SilentError& given = GetParam();
  const Given run = run_of(given.model);
  const Plan plan = preset_plan(parse_preset(given.plan),
                                training_graph(run.network, run.settings.optimizer,
                                               run.settings.train.batch, run.settings.train.seed));
  const Engine engine(run.network, run.settings, plan, run.data);
  const TaskGraph& tasks = engine.compiled().tasks;

  Recording right(tasks);
  const VerifyReport report = verify_plan(
      run.network, run.settings, plan, run.data,
      {.steps = 1,
       .before_capture = on_elements(tasks, [&](Rank rank, RegisterIndex reg, Elements& elements) {
         right.add(rank, reg, elements);
       })});
  EXPECT_TRUE(report.ok) << report.first_difference->value;

  int planted = 0;
  std::mutex mutex;
  const VerifyReport wrong = verify_plan(
      run.network, run.settings, plan, run.data,
      {.steps = 1,
       .before_capture = on_elements(tasks, [&](Rank rank, RegisterIndex reg, Elements& elements) {
         if (tasks.registers[reg].name.text() != given.reg) return;
         given.error(elements, rank, right);
         const std::lock_guard lock(mutex);
         ++planted;
       })});
  ASSERT_GT(planted, 0) << "no register " << given.reg;
  EXPECT_FALSE(wrong.ok);
  ASSERT_TRUE(wrong.first_difference.has_value());
  EXPECT_EQ(wrong.first_difference->value, given.reg);
}

INSTANTIATE_TEST_SUITE_P(Planted, EverySilentError, testing::ValuesIn(silent_errors()),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace tessera
