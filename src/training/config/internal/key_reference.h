// The reference of all keys of a configuration, of plans and of costs: docs/configuration.md.
#pragma once

#include <string>
#include <vector>

#include "training/config/config.h"
#include "training/config/internal/file_reference.h"

namespace tessera {

/// A key and the kinds of model or data that read it.
struct ReferenceKey {
  ReadKey key;
  std::vector<std::string> kinds;  // empty: all
};
/// Every key of a configuration that is read for any kind of model and of data, in the order in
/// which it is.
std::vector<ReferenceKey> reference_keys();

/// The page as Markdown.
std::string configuration_page();

}  // namespace tessera
