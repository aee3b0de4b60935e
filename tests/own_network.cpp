// Trains a network that is no family, in one process or in those of mpirun, and prints what each
// part computes, bit by bit: `own_network PLAN THEN FOLDER` trains three steps under one plan of
// training/engine/testing/own_network.h, saves into FOLDER, switches to the other plan and trains
// three more. `own_network verify PLAN RANK` verifies a plan, with a fault on a rank if there is
// one of this number.
#include "training/engine/testing/own_network.h"

#include <cstdlib>
#include <iostream>

#include "tools/launch/processes.h"
#include "training/engine/checkpointing.h"
#include "training/fit/fit.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

/// Prints the loss of each step.
class PrintLosses : public Callback {
 public:
  void on_step_end(const TrainingState& state, TrainingControl&) override {
    std::cout << "step " << state.step << ": " << state.result->loss << "\n";
  }
};

/// The first three pairs of the held-out data.
Batch three_rows(const RunData& data) {
  const Sampler sampler(
      {.samples = data.held_out->samples(), .batch = 3, .shuffle = Shuffle::kNone});
  return data.held_out->batch(sampler, 0, {0, 3});
}

void train(const std::string& plan, const std::string& then, const std::string& folder,
           RuntimeOptions runtime) {
  const auto data = pairs_of_points();
  Engine engine(distance_network(), distance_settings(), distance_plan(plan), data,
                {.runtime = std::move(runtime)});
  PrintLosses losses;
  RealFileSystem disk;
  CheckpointFolder checkpoints(disk, folder);
  fit(engine, {.steps = 3, .callbacks = {&losses}, .save = [&](Engine& trained) {
                 save_checkpoint(trained, checkpoints, 1);
               }});
  engine.switch_plan(distance_plan(then));
  fit(engine, {.steps = 3, .callbacks = {&losses}});
  const Evaluation evaluation = engine.evaluate(3);
  std::cout << "evaluation: " << evaluation.loss << ", " << *evaluation.metric("absolute_error")
            << "\n";
  const TensorMap results = engine.predict(three_rows(*data));
  for (const float value : results.at("predicted").values<float>())
    std::cout << "predicted: " << value << "\n";
  restore(engine, Checkpoint(disk, checkpoints.path_of(3)));
  fit(engine, {.steps = 3, .callbacks = {&losses}});
}

ExitCode verified(const std::string& name, Rank faulty, RuntimeOptions runtime) {
  const Plan plan = distance_plan(name);
  const Engine compiled(distance_network(), distance_settings(), plan, pairs_of_points());
  const VerifyReport report =
      verify_plan(distance_network(), distance_settings(), plan, pairs_of_points(),
                  {.runtime = std::move(runtime),
                   .before_capture = fault_on(faulty, "apart", compiled.compiled().tasks)});
  std::cout << (report.ok ? "ok" : "FAILED") << "\n";
  if (report.first_difference)
    std::cout << report.first_difference->value << " [" << report.first_difference->index << "] "
              << report.first_difference->placement << "\n";
  return report.ok ? ExitCode::kDone : ExitCode::kVerificationFailed;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  tessera::Processes processes;
  std::cout << std::hexfloat;
  try {
    if (argv[1] == std::string("verify"))
      return static_cast<int>(
          tessera::verified(argv[2], std::atoi(argv[3]), processes.connect(tessera::Seconds(30))));
    tessera::train(argv[1], argv[2], argv[3], processes.connect(tessera::Seconds(30)));
  } catch (const std::exception& error) {
    processes.report_failure(std::current_exception());
    std::cerr << error.what() << "\n";  // of the leader: the others are silent
    if (processes.are_connected()) processes.end_all(1);
    return 1;
  }
}
