#include <gtest/gtest.h>

#include "runtime/local_transport.h"
#include "runtime/network.h"
#include "runtime/stress_for_tests.h"
#include "runtime/transport_for_tests.h"

namespace tessera {
namespace {

using namespace testing_stress;

TEST(Stress, RandomProgramsWithRandomDelaysGiveWhatPlainLoopsGive) {
  run_random_programs(150);
}

TEST(Stress, OverMembersToo) {
  for (const int members : {2, 3}) {
    const auto work = [](std::unique_ptr<Transport> mine) { run_random_programs(30, std::make_shared<Network>(std::move(mine))); };
    testing_transport::on_members(make_local_transports(members, 8, 1), work);
  }
}

TEST(Stress, SixtyFourRanksOnFewCoresFinish) {
  for (unsigned seed = 0; seed < 8; ++seed) run_and_compare(seed, {.processes = 64, .meshes = 4, .extent = 8, .works = 20}, 3);
}

}  // namespace
}  // namespace tessera
