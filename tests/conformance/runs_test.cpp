// Every run of a pairwise covering array over models and plans computes what the serial program
// computes, tensor by tensor, and has the properties that follow from its decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "compiler/lower/lower.h"
#include "ir/models/graphs.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "test_name.h"
#include "training_run.h"

namespace tessera::conformance {
namespace {

constexpr int64_t kSteps = 2;

/// Graphs of which a comparison of all tensors takes a second.
bool is_large(const std::string& model) {
  return model == "resnet" || model == "unet" || model == "two_tower" || model == "encoder_decoder";
}

VerifyOptions options_of(const TrainingRun& run) {
  return {.steps = kSteps, .tensor_steps = is_large(run.model) ? 1 : kSteps};
}

/// The training graph with what the settings say of its precision and optimizer.
Graph graph_of(const SmallModel& model) {
  const TrainConfig& train = model.settings.train;
  return training_graph(model.network, model.settings.optimizer, train.batch, train.seed,
                        train.precision);
}

VerifyReport verified(const SmallModel& model, const Plan& plan, const VerifyOptions& options) {
  return verify_plan(model.network, model.settings, plan, model.data, options);
}

/// The report of the leader, when the ranks are divided between two processes.
VerifyReport verified_in_two_processes(const SmallModel& model, const Plan& plan,
                                       const VerifyOptions& options) {
  VerifyReport report;
  std::exception_ptr failure;
  std::mutex mutex;
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    VerifyOptions of_process = options;
    of_process.runtime.network = std::make_shared<ProcessNetwork>(std::move(mine));
    try {
      VerifyReport own = verified(model, plan, of_process);
      const std::lock_guard lock(mutex);
      if (of_process.runtime.network->process() == 0) report = std::move(own);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  return report;
}

/// Elements of the state of the optimizer, and of the parameters, that the first rank of each mesh
/// has together.
struct Held {
  int64_t state = 0, parameters = 0;
};

Held held_under(const Graph& graph, const Plan& plan) {
  const PlacedGraph placed = placements(graph, plan);
  Held held;
  for (const Variable& variable : placed.graph.variables()) {
    if (!variable.trainable && variable.origin.derivation != "optimizer") continue;
    const DistAttr& attr = placed.sharded.at(variable.value);
    const Shape& shape = placed.graph.type(variable.value).shape;
    (variable.trainable ? held.parameters : held.state) +=
        element_count(attr.local_shape(shape, attr.mesh->coordinate_at(0)));
  }
  return held;
}

class EveryRun : public testing::TestWithParam<TrainingRun> {
 protected:
  const TrainingRun& run() const { return GetParam(); }
  std::string text() const { return reproducer(to_text(run()), model_.settings, plan_, graph_); }

  VerifyReport report() const {
    return run().transport == "two_processes"
               ? verified_in_two_processes(model_, plan_, options_of(run()))
               : verified(model_, plan_, options_of(run()));
  }

  /// What passes order, keep, group or move changes no bit of the losses.
  void expect_losses_of_the_plain_run(const std::vector<double>& losses) const {
    const TrainingRun plain = without_neutral_decisions(run());
    if (plain == run()) return;
    Engine engine(model_.network, model_.settings, plan_of(plain, graph_), model_.data);
    std::vector<double> expected;
    for (int64_t step = 0; step < kSteps; ++step) expected.push_back(engine.step().loss);
    EXPECT_EQ(losses, expected) << "losses of " << to_text(plain) << "\n" << text();
  }

  /// ZeRO divides the state of the optimizer; level 3 the parameters, too, and so does any level
  /// where ops read them in 16 bits.
  void expect_divided_state() const {
    TrainingRun whole = run();
    whole.zero = "0";
    const Held all = held_under(graph_, plan_of(whole, graph_)), part = held_under(graph_, plan_);
    if (run().zero == "0" || all.state == 0) return;
    EXPECT_LT(part.state, all.state) << text();
    if (run().zero == "3" || run().precision != "f32")
      EXPECT_LT(part.parameters, all.parameters) << text();
    else
      EXPECT_EQ(part.parameters, all.parameters) << text();
  }

  const SmallModel model_ = model_of(GetParam());
  const Graph graph_ = graph_of(model_);
  const Plan plan_ = plan_of(GetParam(), graph_);
};

TEST_P(EveryRun, ComputesWhatTheSerialProgramComputes) {
  const VerifyReport found = report();
  EXPECT_TRUE(found.ok) << difference_text(found) << "\n" << text();
  EXPECT_GT(found.exact_tensors, 0);
  EXPECT_EQ(std::ssize(found.losses), kSteps);
  expect_losses_of_the_plain_run(found.losses);
  expect_divided_state();
}

// Factors and their numbers of values, and the pairs that constraints leave, decide the number.
TEST(CoveringRuns, AreFew) {
  EXPECT_LE(covering_runs().size(), 140u);
}

INSTANTIATE_TEST_SUITE_P(, EveryRun, testing::ValuesIn(covering_runs()),
                         [](const auto& given) { return test_name(to_text(given.param)); });

}  // namespace
}  // namespace tessera::conformance
