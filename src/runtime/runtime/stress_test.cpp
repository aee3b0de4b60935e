#include "runtime/runtime/testing/stress.h"

#include <gtest/gtest.h>

#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"

namespace tessera {
namespace {

using namespace testing_stress;

TEST(Stress, RandomProgramsWithRandomDelaysGiveWhatPlainLoopsGive) {
  const int cases = setting("TESSERA_STRESS", 150), first = setting("TESSERA_STRESS_SEED", 0);
  for (int seed = first; seed < first + cases && !testing::Test::HasFailure(); ++seed)
    run_and_compare(static_cast<unsigned>(seed), {});
}

TEST(Stress, RandomProgramsOverMembersWithLateMessagesGiveWhatPlainLoopsGive) {
  const int cases = setting("TESSERA_STRESS", 50), first = setting("TESSERA_STRESS_SEED", 0);
  for (int seed = first; seed < first + cases && !testing::Test::HasFailure(); ++seed) {
    const int members = 2 + seed % 3, late = seed % 4 == 0 ? 0 : seed % 12;
    testing_transport::on_processes(
        make_local_transports(members, late, static_cast<uint64_t>(seed)),
        [seed](std::unique_ptr<Transport> mine) {
          try {
            run_and_compare(static_cast<unsigned>(seed), {},
                            std::make_shared<ProcessNetwork>(std::move(mine)));
          } catch (const std::exception& error) {
            ADD_FAILURE() << reproducer(static_cast<unsigned>(seed)) << ": " << error.what();
          }
        });
  }
}

TEST(Stress, SixtyFourRanksOnFewCoresFinish) {
  for (unsigned seed = 0; seed < 8; ++seed)
    run_and_compare(seed, {.ranks = 64, .meshes = 4, .extent = 8, .works = 20});
}

}  // namespace
}  // namespace tessera
