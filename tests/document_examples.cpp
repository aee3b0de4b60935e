#include "document_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "base/tensor/split.h"

namespace tessera {
namespace {

constexpr std::string_view kMark = "<!-- example: ";
constexpr std::string_view kMarkEnd = " -->\n";
constexpr std::string_view kOpen = "```text\n";
constexpr std::string_view kClose = "```\n";

bool is_updating() {
  const char* value = std::getenv("TESSERA_UPDATE_DOCS");
  return value && std::string_view(value) == "1";
}

/// The range of the text of an example in its page.
Range text_range(std::string_view page, std::string_view name) {
  const std::string head =
      std::string(kMark) + std::string(name) + std::string(kMarkEnd) + std::string(kOpen);
  const size_t begin = page.find(head);
  ensure(begin != std::string_view::npos, "the page has no block of the example '" +
                                              std::string(name) + "': it begins with\n" + head);
  const size_t first = begin + head.size();
  // The block may be empty.
  const size_t end = page.substr(first).starts_with(kClose)
                         ? first
                         : page.find("\n" + std::string(kClose), first) + 1;
  ensure(end != std::string_view::npos + 1,
         "the block of the example '" + std::string(name) + "' has no end");
  return {static_cast<int64_t>(first), static_cast<int64_t>(end)};
}

}  // namespace

std::vector<std::string> example_names(std::string_view page) {
  std::vector<std::string> names;
  for (size_t at = page.find(kMark); at != std::string_view::npos; at = page.find(kMark, at + 1)) {
    const size_t begin = at + kMark.size();
    names.emplace_back(page.substr(begin, page.find(kMarkEnd, begin) - begin));
  }
  return names;
}

std::string example_text(std::string_view page, std::string_view name) {
  const Range range = text_range(page, name);
  return std::string(
      page.substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.size())));
}

std::string with_example(std::string page, std::string_view name, std::string_view text) {
  const Range range = text_range(page, name);
  return page.replace(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()), text);
}

void expect_examples(const std::string& file, const std::vector<DocumentExample>& examples) {
  const std::filesystem::path path = std::filesystem::path(TESSERA_SOURCE_DIR) / file;
  std::string page = read_file(path);
  std::vector<std::string> names;
  for (const DocumentExample& example : examples) {
    names.push_back(example.name);
    const std::string text = example.print();
    for (const std::string& sentence : example.says)
      EXPECT_THAT(text, testing::HasSubstr(sentence)) << "in the example '" << example.name << "'";
    if (is_updating()) {
      page = with_example(std::move(page), example.name, text);
    } else {
      EXPECT_EQ(example_text(page, example.name), text)
          << file << ", example '" << example.name
          << "': the page is not what the program prints. It should be\n\n"
          << text << "\nTESSERA_UPDATE_DOCS=1 writes it so.";
    }
  }
  EXPECT_EQ(example_names(page), names)
      << "the page and the test name the same examples in the same order";
  if (is_updating()) write_file(path, page);
}

}  // namespace tessera
