// A training step performs no allocations of our own. An operator new for the whole test program
// counts them by the object file that called it.
#include "base/testing/allocation.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "base/testing/test_folder.h"
#include "training/engine/checkpointing.h"
#include "training/engine/checkpoints/background_save.h"
#include "training/engine/testing/runs.h"

namespace {

std::atomic<bool> is_counting{false};
std::atomic<int> ours{0};
std::atomic<int> of_libraries{0};
std::atomic<const void*> first_caller{nullptr};

bool is_of_a_kernel_library(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libdnnl") != nullptr;
}

std::string name_of(const void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return "nobody";
  return std::string(info.dli_sname ? info.dli_sname : info.dli_fname);
}

}  // namespace

void tessera::allocation_testing::on_allocation(const void* caller) {
  if (!is_counting.load(std::memory_order_relaxed)) return;
  if (is_of_a_kernel_library(caller)) {
    ++of_libraries;
  } else if (ours.fetch_add(1) == 0) {
    first_caller = caller;
  }
}

namespace tessera {
namespace {

TEST(EngineAllocation, ATrainingStepAllocatesNothingOfOursAfterTheSecond) {
  for (const char* plan : {"serial", "dp4", "tp4", "dp2-tp2"}) {
    Engine engine(tiny_gpt(), plan_of("gpt", plan), small_text());
    // The loader's batches are made in its first steps: two waiting, one in the making, one in use.
    for (int i = 0; i < 4; ++i) engine.step();
    const auto overlapping_steps = [&] {
      engine.begin_step();
      for (int i = 0; i < 4; ++i) {
        engine.begin_step();
        engine.end_step();
      }
      engine.end_step();
    };
    overlapping_steps();
    ours = 0;
    is_counting = true;
    for (int i = 0; i < 5; ++i) engine.step();
    overlapping_steps();
    is_counting = false;
    EXPECT_EQ(ours, 0) << "under " << plan << ", first by " << name_of(first_caller);
  }
}

TEST(EngineAllocation, IsCountedWhenThereIsOne) {
  ours = 0;
  is_counting = true;
  auto memory = std::make_unique<int>(3);
  is_counting = false;
  EXPECT_EQ(ours, *memory - 2);
}

TEST(EngineAllocation, NoRankHoldsMoreThanABufferToStoreAndLoadItsParts) {
  RunConfig config = tiny_mlp();
  config.model.width = 4096;  // hidden.1.weight is 64 MiB, 16 MiB per rank
  config.optimizer.kind = OptimizerKind::kSgd;
  const TestFolder test;
  const std::filesystem::path path = test / "checkpoints";
  RealFileSystem disk;
  CheckpointFolder folder(disk, path);
  Engine engine(config, plan_of("mlp", "tp4"), small_text(), {.runtime = {}, .initialize = false});
  constexpr int64_t kBuffer = 1 << 20;
  const int64_t storing = thread_peak::measure([&] { save_checkpoint(engine, folder, 1); });
  EXPECT_LE(storing, kBuffer);
  EXPECT_GE(storing, 64 << 10);  // the descriptions of the parts are counted
  const Checkpoint checkpoint(disk, find_checkpoint(disk, path));
  EXPECT_LE(thread_peak::measure([&] { restore(engine, checkpoint); }),
            1 << 20);  // parts are read into their places
}

TEST(EngineAllocation, SavesInTheBackgroundHoldOneCopyOfTheOwnedPartsAndUseItAgain) {
  RunConfig config = tiny_mlp();
  config.model.width = 4096;  // hidden.1.weight is 64 MiB, 16 MiB per rank
  config.optimizer.kind = OptimizerKind::kSgd;
  const TestFolder test;
  const std::filesystem::path path = test / "checkpoints";
  RealFileSystem disk;
  CheckpointFolder folder(disk, path);
  Engine engine(config, plan_of("mlp", "tp4"), small_text());
  std::optional<BackgroundSave> save;
  const int64_t snapshot = thread_peak::measure([&] { save.emplace(engine, folder); });
  EXPECT_GE(snapshot, 16 << 20);
  EXPECT_LE(snapshot, 24 << 20);  // the parts besides hidden.1.weight have less than 8 MiB
  for (int i = 0; i < 2; ++i) {
    const int64_t saving = thread_peak::measure([&] {
      save->begin(1);
      save->finish();
    });
    EXPECT_LE(saving, 1 << 20);
  }
}

}  // namespace
}  // namespace tessera
