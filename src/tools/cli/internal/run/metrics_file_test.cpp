#include "tools/cli/internal/run/metrics_file.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

TEST(TruncateMetrics, RemovesLaterStepsAndAnIncompleteLine) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "metrics.jsonl";
  write_file(file,
             "{\"step\":1,\"loss\":3.5}\n{\"step\":2,\"loss\":3.25}\n{\"step\":2,\"val_loss\":3.0}"
             "\n{\"step\":3,\"loss\":3.0}\n{\"step\":4,\"lo");
  truncate_metrics(file, 2);
  EXPECT_EQ(
      read_file(file),
      "{\"step\":1,\"loss\":3.5}\n{\"step\":2,\"loss\":3.25}\n{\"step\":2,\"val_loss\":3.0}\n");
  std::filesystem::remove(file);
  truncate_metrics(file, 2);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(HeldOutLosses, AreThoseOfTheEvaluationsUpToAStep) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "metrics.jsonl";
  write_file(file,
             "{\"step\":1,\"loss\":3.5}\n{\"step\":1,\"val_loss\":3.25}\n{\"step\":2,\"loss\":3.25}"
             "\n{\"step\":2,\"val_loss\":3}\n{\"step\":3,\"val_loss\":2.5}\n{\"step\":4,\"val_lo");
  const std::vector<HeldOutLoss> losses = held_out_losses(file, 2);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].step, 1);
  EXPECT_EQ(losses[0].loss, 3.25);
  EXPECT_EQ(losses[1].step, 2);
  EXPECT_EQ(losses[1].loss, 3);
  std::filesystem::remove(file);
  EXPECT_TRUE(held_out_losses(file, 2).empty());
}

}  // namespace
}  // namespace tessera
