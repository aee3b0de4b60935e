// Every combination of degrees of parallelism on eight ranks, zero, recompute and micro-batches, as
// the table of docs/passes.md: every tensor of the first step and the losses of ten steps are
// compared with the serial program. It takes minutes, so it is no test; engine_test has a sample.
//
//     combinations_bench [MODEL...]     gpt, llama
#include <array>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "../src/engine/testing/runs.h"
#include "base/error.h"
#include "engine/graphs.h"
#include "presets/presets.h"
#include "verify/verify.h"

namespace tessera {
namespace {

constexpr int kRanks = 8;

struct Degrees {
  int dp = 1, tp = 1, pp = 1, sp = 1;

  std::string text() const {
    std::string text;
    for (const auto& [name, size] : std::array{std::pair("pp", pp), std::pair("dp", dp),
                                               std::pair("sp", sp), std::pair("tp", tp)})
      if (size > 1)
        text += (text.empty() ? "" : ",") + std::string(name) + "=" + std::to_string(size);
    return text;
  }
};

std::vector<Degrees> degrees_of_eight() {
  std::vector<Degrees> all;
  for (int dp = 1; dp <= kRanks; dp *= 2)
    for (int tp = 1; dp * tp <= kRanks; tp *= 2)
      for (int pp = 1; dp * tp * pp <= kRanks; pp *= 2)
        all.push_back({dp, tp, pp, kRanks / (dp * tp * pp)});
  return all;
}

RunConfig config_of(const std::string& model) {
  RunConfig config = tiny_run(model);
  config.model.width = 64;
  config.train.batch = 32;
  return config;
}

/// "ok", "wrong: VALUE", or why the combination is refused.
std::string outcome_of(const RunConfig& config, const std::string& preset) {
  try {
    const Plan plan = preset_plan(parse_preset(preset), training_graph(config));
    const VerifyReport report =
        verify_plan(config, plan, small_text(), {.steps = 10, .tensor_steps = 1});
    if (report.ok) return "ok";
    return "wrong: " + (report.first_difference ? report.first_difference->value : "a loss");
  } catch (const UserError& error) {
    return error.why();
  }
}

/// Prints a row, and returns whether nothing was wrong in it. `reasons` numbers the refusals.
bool print_row(const RunConfig& config, const Degrees& degrees,
               std::map<std::string, size_t>& reasons) {
  bool is_right = true;
  std::cout << "| `" << degrees.text() << "` |";
  for (const char* recompute : {"none", "selective", "full"})
    for (const int accumulate : {1, 4}) {
      std::string cell;
      for (int zero = 0; zero <= 3; ++zero) {
        const std::string outcome =
            outcome_of(config, degrees.text() + ",recompute=" + recompute +
                                   ",micro_batches=" + std::to_string(accumulate * degrees.pp) +
                                   (zero > 0 ? ",zero=" + std::to_string(zero) : ""));
        is_right = is_right && outcome.rfind("wrong", 0) != 0;
        if (outcome == "ok") {
          cell += std::to_string(zero) + " ";
        } else {
          const size_t number = reasons.emplace(outcome, reasons.size() + 1).first->second;
          cell += "(" + std::to_string(number) + ") ";
        }
      }
      std::cout << " " << cell << "|" << std::flush;
    }
  std::cout << "\n";
  return is_right;
}

bool print_table(const std::string& model) {
  const RunConfig config = config_of(model);
  std::map<std::string, size_t> reasons;
  bool is_right = true;
  std::cout << "\n"
            << model << ": the levels of zero that equal the serial program\n\n"
            << "| degrees | none, 1 | none, 4 | selective, 1 | selective, 4 | full, 1 | full, 4 |\n"
            << "|---|---|---|---|---|---|---|\n";
  for (const Degrees& degrees : degrees_of_eight())
    is_right = print_row(config, degrees, reasons) && is_right;
  std::cout << "\n";
  for (const auto& [reason, number] : reasons) std::cout << "(" << number << ") " << reason << "\n";
  return is_right;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  std::vector<std::string> models(arguments + 1, arguments + count);
  if (models.empty()) models = {"gpt", "llama"};
  bool is_right = true;
  for (const std::string& model : models) is_right = tessera::print_table(model) && is_right;
  return is_right ? 0 : 1;
}
