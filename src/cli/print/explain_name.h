// What `tessera explain CONFIG NAME` says of the values and ops that NAME fits.
#pragma once

#include <string>

#include "cli/print/explanation.h"

namespace tessera {

/// NAME is a name or a pattern as matches() of base/text.h takes it. An op and its result share a
/// name: the op is explained with all its operands. throws  UserError (2) with the nearest names
/// when it fits nothing
std::string explain_name_text(const Graph& graph, const Compiled& compiled,
                              const std::string& name);
/// {matches: [{name, ...}]}
Document explain_name_document(const Graph& graph, const Compiled& compiled,
                               const std::string& name);

Document to_document(const ValueFacts& facts);
Document to_document(const CommunicationFacts& facts);

}  // namespace tessera
