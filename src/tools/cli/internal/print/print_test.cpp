#include "tools/cli/internal/print/print.h"

#include <gtest/gtest.h>

#include <iostream>

namespace tessera {
namespace {

TEST(Print, TextsOfFilesDoNotControlATerminal) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  print("tensor \x1b]0;title\x07 of \xc2\x9b\n\tmesh caf\xc3\xa9\n");
  tell("resume \x1b[2J\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "tensor \\x1b]0;title\\x07 of \\x9b\n\tmesh caf\xc3\xa9\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "resume \\x1b[2J\n");
}

TEST(Print, BytesOfAModelAreWrittenAsTheyAreIntoAFile) {
  testing::internal::CaptureStdout();
  print_bytes("a\rb\x1b");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\rb\x1b");
}

}  // namespace
}  // namespace tessera
