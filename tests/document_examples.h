// Examples in pages of docs/ whose text programs print. A test prints each text again and compares
// it with the block in the page.
//
//     <!-- example: boxes -->
//     ```text
//     [0:2, 0:6]
//     ```
//
// With TESSERA_UPDATE_DOCS=1 in the environment the tests write the blocks instead of comparing
// them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// One example of a page.
struct DocumentExample {
  std::string name;
  std::function<std::string()> print;  // prints its text, which ends with a newline
  std::vector<std::string> says = {};  // phrases that the text must contain in any case
};

/// The names of the examples in a page, in order.
std::vector<std::string> example_names(std::string_view page);
/// The text of an example.  throws  InternalError when the page has no block of this name
std::string example_text(std::string_view page, std::string_view name);
/// The page with `text` as this example.
///   throws  InternalError when the page has no block of this name
std::string with_example(std::string page, std::string_view name, std::string_view text);

/// Expects that the page `file` (relative to the project's folder) has exactly `examples`, with the
/// texts that they print.
void expect_examples(const std::string& file, const std::vector<DocumentExample>& examples);

}  // namespace tessera
