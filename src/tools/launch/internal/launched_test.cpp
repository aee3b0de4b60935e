#include "tools/launch/internal/launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace tessera {
namespace {

std::optional<Launched> launched(const std::map<std::string, std::string>& environment) {
  return find_launched([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launched, WithoutALauncherThereIsNothing) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}))
      << "the script of a job is one process";
}

TEST(Launched, EveryLauncherIsKnownByItsVariables) {
  const std::map<std::string, std::map<std::string, std::string>> launchers{
      {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}},
      {"MPICH", {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}},
      {"Slurm", {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}}},
      {"torchrun", {{"RANK", "2"}, {"WORLD_SIZE", "4"}}},
  };
  for (const auto& [by, environment] : launchers) {
    const auto found = launched(environment);
    ASSERT_TRUE(found) << by;
    EXPECT_EQ(found->by, by);
    EXPECT_EQ(found->process, 2);
    EXPECT_EQ(found->count, 4);
  }
}

TEST(Launched, MpirunInsideOfASlurmJobCounts) {
  const auto found = launched({{"SLURM_PROCID", "0"},
                               {"SLURM_STEP_NUM_TASKS", "1"},
                               {"OMPI_COMM_WORLD_RANK", "3"},
                               {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(found->by, "Open MPI");
  EXPECT_EQ(found->count, 4);
}

TEST(Launched, NonsenseIsRefused) {
  const auto why = [](const std::map<std::string, std::string>& environment) -> std::string {
    try {
      launched(environment);
    } catch (const UserError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      return error.why();
    }
    return "";
  };
  EXPECT_EQ(why({{"PMI_SIZE", "4"}}), "PMI_SIZE is '4' but PMI_RANK is not set");
  EXPECT_EQ(why({{"PMI_SIZE", "4"}, {"PMI_RANK", "4"}}), "PMI_RANK is 4 and PMI_SIZE is 4");
  EXPECT_EQ(why({{"WORLD_SIZE", "four"}, {"RANK", "0"}}),
            "WORLD_SIZE is 'four', which is not the number of a process");
}

}  // namespace
}  // namespace tessera
