// Epochs of fit(), and its evaluation at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/testing/runs.h"
#include "training/fit.h"

namespace tessera {
namespace {

using testing::ElementsAre;

RunConfig one_layer() {
  RunConfig config = tiny_mlp();
  config.model.layers = 1;
  return config;
}

/// Exactly this number of samples of 8 tokens.
std::shared_ptr<const RunData> text_of(int64_t samples) {
  auto data = std::make_shared<RunData>(*small_text());
  data->train = std::make_shared<const TextDataset>(
      std::vector<int32_t>(static_cast<size_t>(8 * samples + 1), 7), 8, 8);
  return data;
}

/// Records where epochs begin and end, and their numbers.
class Epochs : public Callback {
 public:
  void on_epoch_begin(const TrainingState& state, TrainingControl&) override {
    add("begin ", state);
  }
  void on_epoch_end(const TrainingState& state, TrainingControl&) override { add("end ", state); }

  std::vector<std::string> events;

 private:
  void add(const std::string& event, const TrainingState& state) {
    events.push_back(event + std::to_string(state.epoch) + " at " + std::to_string(state.step) +
                     " of " + std::to_string(state.steps_per_epoch));
  }
};

std::vector<std::string> epochs_of(int64_t samples, int64_t steps, int64_t accumulate) {
  RunConfig config = one_layer();
  config.train.batch = 2;
  Engine engine(config, serial_plan(), text_of(samples));
  Epochs epochs;
  fit(engine, {.steps = steps, .callbacks = {&epochs}, .accumulate = accumulate});
  return epochs.events;
}

TEST(FitRuns, AnEpochIsOnePassOverTheDataHoweverManyBatchesAStepAccumulates) {
  // Four batches.
  EXPECT_THAT(epochs_of(8, 4, 0), ElementsAre("begin 0 at 0 of 4", "end 0 at 4 of 4"));
  EXPECT_THAT(epochs_of(8, 4, 2), ElementsAre("begin 0 at 0 of 2", "end 0 at 2 of 2",
                                              "begin 1 at 2 of 2", "end 1 at 4 of 2"));
  // Three batches: the second step ends the first epoch with one batch and begins the next.
  EXPECT_THAT(epochs_of(6, 3, 2), ElementsAre("begin 0 at 0 of 2", "end 0 at 2 of 2",
                                              "begin 1 at 2 of 2", "end 1 at 3 of 2"));
}

}  // namespace
}  // namespace tessera
