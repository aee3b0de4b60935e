// The output of `tessera explain CONFIG NAME` for the values and ops that NAME matches.
#pragma once

#include <string>

#include "tools/cli/print/plan/explanation.h"

namespace tessera {

///   serial  the graph before the passes of the compiler
///   throws  UserError (2) with the most similar names when NAME matches no op and no value of it
void check_is_named(const Graph& serial, const std::string& name);

/// NAME is a name, or a pattern of matches() in base/text/text.h. An op and its result share a
/// name; then the op is explained with all its operands. A value that a pass over the serial graph
/// has replaced is explained by the name of the value that holds the same.
///   serial  the graph before these passes
///   throws  UserError (2) with the most similar names when it matches nothing
std::string explain_name_text(const Graph& serial, const Compiled& compiled,
                              const std::string& name);
/// The same as a document: {matches: [{name, ...}], replaced: {name: name}}
Document explain_name_document(const Graph& serial, const Compiled& compiled,
                               const std::string& name);

Document to_document(const ValueFacts& facts);
Document to_document(const CommunicationFacts& facts);

}  // namespace tessera
