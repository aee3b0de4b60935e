#include "test_name.h"

#include <sstream>

#include "training/config/config.h"

namespace tessera::conformance {

std::string difference_text(const VerifyReport& report) {
  if (!report.first_difference) return "the losses differ";
  const Difference& difference = *report.first_difference;
  std::ostringstream text;
  text << difference.value << " of " << difference.op << " in step " << difference.step << " "
       << difference.placement << " element " << difference.index << ": " << difference.distributed
       << ", serial " << difference.serial << ", tolerance " << difference.tolerance;
  return text.str();
}

std::string reproducer(const std::string& run, const TrainingSettings& settings, const Plan& plan,
                       const Graph& graph) {
  return "run: " + run + "\nsettings: " + to_json(resolved_settings(settings), 2) +
         "\nplan: " + to_json(to_document(plan, graph), 2);
}

}  // namespace tessera::conformance
