// Keys that users of other systems write out of habit.
#pragma once

#include "base/files/config_table.h"

namespace tessera {

/// Refuses keys of other systems in the tables of a configuration and outside of them, such as
/// train.lr and lr.
///   throws  UserError (78) with the name of the key here
void refuse_key_aliases(const Document& document, const ConfigOrigin& origin);

}  // namespace tessera
