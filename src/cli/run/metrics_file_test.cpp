#include "cli/run/metrics_file.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace tessera {
namespace {

TEST(TruncateMetrics, RemovesLaterStepsAndAnIncompleteLine) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "truncated_metrics.jsonl";
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

}  // namespace
}  // namespace tessera
