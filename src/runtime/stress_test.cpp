// Random programs with random delays: nothing waits for ever, nothing is lost, and every number is right. TESSERA_STRESS=10000 tries so many;
// TESSERA_STRESS_SEED=N begins with that one.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "runtime/local_transport.h"
#include "runtime/network.h"
#include "runtime/runtime.h"
#include "runtime/transport_for_tests.h"
#include "tasks/random_program_testing.h"

namespace tessera {
namespace {

using random_programs::RandomProgram;
using random_programs::Size;

int setting(const char* name, int usual) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : usual;
}

/// Lets a rank be late at any register: mostly not, sometimes by giving up its core, seldom by sleeping.
Observer delays(unsigned seed, int64_t step) {
  return [=](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte*) {
    const RandomStream stream(seed, static_cast<uint64_t>(step));
    const float chance = stream.uniform(static_cast<uint64_t>(rank) * 1000 + static_cast<uint64_t>(reg));
    if (chance < 0.02f) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (chance > 0.7f) std::this_thread::yield();
  };
}

std::vector<Rank> ranks_up_to(int count) {
  std::vector<Rank> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string reproducer(unsigned seed) {
  return "TESSERA_STRESS=1 TESSERA_STRESS_SEED=" + std::to_string(seed);
}

/// The runs of one program on one member, which may be the only one.
void run_and_compare(unsigned seed, Size size, const std::shared_ptr<Network>& network = nullptr) {
  constexpr std::chrono::seconds kLong{60};
  RandomProgram program(seed, size);
  Runtime runtime(ranks_up_to(size.processes), {.deadline = Seconds(60), .network = network});
  LoadedProgram& loaded = runtime.load(program.graph());
  runtime.initialize(loaded, 1);
  TensorMap results;
  for (int64_t step = 0; step < 3; ++step) {
    const auto inputs = program.inputs(step);
    std::map<std::string, const Tensor*> given;
    for (const auto& [name, tensor] : inputs) given[name] = &tensor;
    const Observer observer = delays(seed, step);
    runtime.run(loaded, given, results, &observer);
    for (const auto& [name, expected] : program.expect(inputs)) {
      const auto values = results.at(name).values<int32_t>();
      ASSERT_EQ((std::vector<int32_t>(values.begin(), values.end())), expected) << reproducer(seed) << ": " << name << " in step " << step;
    }
    // Members go on together: else messages of the next step would come to one that looks for those of the last.
    const auto end = std::chrono::steady_clock::now() + (network ? kLong : kLong * 0);
    while (runtime.any(!runtime.drained(loaded)))
      ASSERT_LT(std::chrono::steady_clock::now(), end) << reproducer(seed) << ": a message was lost in step " << step;
  }
}

TEST(Stress, RandomProgramsWithRandomDelaysGiveWhatPlainLoopsGive) {
  const int cases = setting("TESSERA_STRESS", 150), first = setting("TESSERA_STRESS_SEED", 0);
  for (int seed = first; seed < first + cases && !testing::Test::HasFailure(); ++seed) run_and_compare(static_cast<unsigned>(seed), {});
}

TEST(Stress, RandomProgramsOverMembersWithLateMessagesGiveWhatPlainLoopsGive) {
  const int cases = setting("TESSERA_STRESS", 50), first = setting("TESSERA_STRESS_SEED", 0);
  for (int seed = first; seed < first + cases && !testing::Test::HasFailure(); ++seed) {
    const int members = 2 + seed % 3, late = seed % 4 == 0 ? 0 : seed % 12;
    testing_transport::on_members(make_local_transports(members, late, static_cast<uint64_t>(seed)),
                                  [seed](std::unique_ptr<Transport> mine) {
                                    try {
                                      run_and_compare(static_cast<unsigned>(seed), {}, std::make_shared<Network>(std::move(mine)));
                                    } catch (const std::exception& error) {
                                      ADD_FAILURE() << reproducer(static_cast<unsigned>(seed)) << ": " << error.what();
                                    }
                                  });
  }
}

TEST(Stress, SixtyFourRanksOnFewCoresFinish) {
  for (unsigned seed = 0; seed < 8; ++seed) run_and_compare(seed, {.processes = 64, .meshes = 4, .extent = 8, .works = 20});
}

}  // namespace
}  // namespace tessera
