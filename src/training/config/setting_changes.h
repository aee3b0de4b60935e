// Compares the settings of a stored run with those of the run that loads it.
#pragma once

#include <string>
#include <vector>

#include "base/files/document.h"

namespace tessera {

/// A sentence for each setting of `present` that `stored` has otherwise, in the order of
/// resolved_settings(): "optimizer.learning_rate was 0.002 and is 0.001".
std::vector<std::string> changed_settings(const Document& stored, const Document& present);

/// Those of them on which the variables of a run depend: the model and the optimizer's kind.
std::vector<std::string> changed_variable_settings(const Document& stored, const Document& present);

}  // namespace tessera
