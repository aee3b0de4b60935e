// The names of parameterized test cases, and the text of a failed verification. Test code.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "compiler/plan/plan.h"
#include "training/verify/verify.h"

namespace tessera::conformance {

/// `text` as the name of a test case: "gpt dp=2:1,zero=1" becomes "gpt_dp_2_1_zero_1".
inline std::string test_name(std::string_view text) {
  std::string name(text);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

/// "blocks.0.attn.q.dot in step 1 [@dp, *] element 3: 0.25, serial 0.5, tolerance 1e-06", or
/// "the losses differ".
std::string difference_text(const VerifyReport& report);

/// What a reader needs to repeat the run: the settings of training and the plan, as the program
/// reads them.
std::string reproducer(const std::string& run, const TrainingSettings& settings, const Plan& plan,
                       const Graph& graph);

}  // namespace tessera::conformance
