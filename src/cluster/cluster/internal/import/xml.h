// Reads XML that may be hostile, element by element.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tessera {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  int line = 0;  // from 1

  /// "" when it is absent.
  std::string attribute(const std::string& key) const;
};

/// Calls `open` and `close` for each element, in the order of the text. Nothing is read but the
/// text: a document type, which could name other files and entities, is refused.
///   throws  UserError (78) with file:line for malformed XML, for a document type, and for elements
///           deeper than 64; what `open` throws
void read_xml(std::string_view text, const std::string& file,
              const std::function<void(const XmlElement&)>& open,
              const std::function<void(const std::string& name)>& close);

}  // namespace tessera
