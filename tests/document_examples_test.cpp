#include "document_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kPage =
    "# Page\n"
    "<!-- example: one -->\n```text\na\nb\n```\n"
    "between\n"
    "<!-- example: two -->\n```text\n```\n";

TEST(DocumentExamples, AreFoundByTheirNames) {
  EXPECT_THAT(example_names(kPage), testing::ElementsAre("one", "two"));
  EXPECT_EQ(example_text(kPage, "one"), "a\nb\n");
  EXPECT_EQ(example_text(kPage, "two"), "");
}

TEST(DocumentExamples, AreWrittenWithoutTouchingTheRestOfThePage) {
  EXPECT_EQ(with_example(std::string(kPage), "two", "c\n"),
            "# Page\n"
            "<!-- example: one -->\n```text\na\nb\n```\n"
            "between\n"
            "<!-- example: two -->\n```text\nc\n```\n");
}

TEST(DocumentExamples, ThatThePageLacksAreNamed) {
  EXPECT_THROW(
      {
        try {
          example_text(kPage, "three");
        } catch (const InternalError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("<!-- example: three -->"));
          throw;
        }
      },
      InternalError);
}

}  // namespace
}  // namespace tessera
