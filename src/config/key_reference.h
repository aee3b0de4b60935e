// The reference of all keys of a configuration: docs/configuration.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace tessera {

/// What the reference says of a key besides its type, default and range.
struct KeyMeaning {
  std::string_view name;     // "train.steps"
  std::string_view meaning;  // a sentence without its point
  std::string_view example;  // a value as TOML
};
/// By table, in the order of the page.
std::span<const KeyMeaning> key_meanings();

/// A key and the kinds of model or data that read it.
struct ReferenceKey {
  ReadKey key;
  std::vector<std::string> kinds;  // empty: all
};
/// Every key that is read for any kind of model and of data, in the order in which it is.
std::vector<ReferenceKey> reference_keys();

/// The page as Markdown.
std::string configuration_page();

}  // namespace tessera
