// Random programs with random delays: nothing waits for ever, no message is lost, and every number
// is right. TESSERA_STRESS=10000 runs that many programs; TESSERA_STRESS_SEED=N begins with seed N.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "runtime/runtime/runtime.h"
#include "task_graph/tasks/testing/random_program.h"

namespace tessera::testing_stress {

using random_programs::RandomProgram;
using random_programs::Size;

inline int setting(const char* name, int usual) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : usual;
}

/// Delays a rank at any register: mostly not at all, sometimes by yielding its core, seldom by
/// sleeping.
inline Observer delays(unsigned seed, int64_t step) {
  return [=](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    const RandomStream stream(seed, static_cast<uint64_t>(step));
    const float chance =
        stream.uniform(static_cast<uint64_t>(rank) * 1000 + static_cast<uint64_t>(reg.value()));
    if (chance < 0.02f) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (chance > 0.7f) std::this_thread::yield();
  };
}

inline std::vector<Rank> ranks_up_to(int count) {
  std::vector<Rank> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline std::string reproducer(unsigned seed) {
  return "TESSERA_STRESS=1 TESSERA_STRESS_SEED=" + std::to_string(seed);
}

/// The inputs and results of a step, while it is in flight.
struct GivenStep {
  std::map<std::string, Tensor> inputs;
  std::map<std::string, const Tensor*> given;
  TensorMap results;
  Observer observer;

  GivenStep(const RandomProgram& program, unsigned seed, int64_t number)
      : inputs(program.inputs(number)), observer(delays(seed, number)) {
    for (const auto& [name, tensor] : inputs) given[name] = &tensor;
  }
};

/// Runs one program in one process, which may be the only one: first one step at a time, then steps
/// that follow each other without a pause.
inline void run_and_compare(unsigned seed, Size size,
                            const std::shared_ptr<ProcessNetwork>& network = nullptr) {
  constexpr std::chrono::minutes kLong{3};
  constexpr int64_t kSteps = 8, kThatMeet = 3;
  RandomProgram program(seed, size);
  Runtime runtime(ranks_up_to(size.ranks), {.deadline = Seconds(180), .network = network});
  LoadedProgram& loaded = runtime.load(program.graph());
  runtime.initialize(loaded, 1);
  std::vector<std::unique_ptr<GivenStep>> steps;
  const auto begin_next = [&] {
    steps.push_back(std::make_unique<GivenStep>(program, seed, static_cast<int64_t>(steps.size())));
    runtime.begin_step(loaded, steps.back()->given, steps.back()->results, &steps.back()->observer);
  };
  for (int64_t step = 0; step < kSteps; ++step) {
    if (runtime.steps_in_flight() == 0) begin_next();
    if (step >= kThatMeet && step + 1 < kSteps) begin_next();
    runtime.end_step();
    const GivenStep& ended = *steps[step];
    for (const auto& [name, expected] : program.expect(ended.inputs)) {
      const auto values = ended.results.at(name).values<int32_t>();
      ASSERT_EQ((std::vector<int32_t>(values.begin(), values.end())), expected)
          << reproducer(seed) << ": " << name << " in step " << step;
    }
    if (runtime.steps_in_flight() > 0) continue;
    // Processes continue together. Otherwise messages of the next step would reach a process that
    // still checks for those of the last one.
    const auto end = std::chrono::steady_clock::now() + (network ? kLong : kLong * 0);
    while (runtime.any(!runtime.is_quiescent(loaded)))
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << reproducer(seed) << ": a message was lost in step " << step;
  }
}

}  // namespace tessera::testing_stress
