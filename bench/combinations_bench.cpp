// Every combination of degrees of parallelism on eight ranks with zero, recompute, accumulation and
// precision: every tensor of the first step and the losses of ten steps are compared with the
// serial program of the same precision. It takes an hour or two on two cores, so it is no test;
// engine_test has a sample.
//
//     combinations_bench run FOLDER [PART/PARTS] [WORD...]
//         compares the cases that FOLDER has no results of, and stores them there. Processes with
//         PART 1/2 and 2/2 share the work. With words only the groups whose names contain one:
//         "llama", "bf16", "pp=2"
//     combinations_bench table FOLDER
//         prints docs/combinations.md from the results
//
// Both exit with 1 when a plan computes other numbers than the serial program.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "../src/training/engine/testing/runs.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "planner/presets/presets.h"
#include "training/engine/graphs.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 8;
constexpr std::array kModels{"gpt", "llama"};
constexpr std::array kPrecisions{DType::kF32, DType::kBF16};
constexpr std::array kRecompute{"none", "selective", "full"};
constexpr std::array kAccumulate{1, 4};
constexpr int kZeroLevels = 4;

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

/// The cases of one model, precision and degrees: a file of results.
struct Group {
  std::string model;
  DType precision = DType::kF32;
  Degrees degrees;

  std::string name() const {
    return model + " " + std::string(to_text(precision)) + " " + degrees.text();
  }
};

std::vector<Group> groups() {
  std::vector<Group> all;
  for (const Degrees& degrees : degrees_of_eight())
    for (const char* model : kModels)
      for (const DType precision : kPrecisions) all.push_back({model, precision, degrees});
  return all;
}

struct Case {
  std::string recompute;
  int accumulate = 1;
  int zero = 0;
};

/// A preset has 2 micro-batches for each of 2 stages and 1 for each of more: a batch of 32 rows has
/// one row in each of the 4 x 8 micro-batches of 8 stages.
std::string preset_of(const Degrees& degrees, const Case& each) {
  std::string text = degrees.text() + ",recompute=" + each.recompute;
  if (degrees.pp > 1) text += ",micro_batches=" + std::to_string(degrees.pp);
  if (each.accumulate > 1) text += ",accumulate=" + std::to_string(each.accumulate);
  if (each.zero > 0) text += ",zero=" + std::to_string(each.zero);
  return text;
}

template <class Work>
void for_each_case(const Work& work) {
  for (const char* recompute : kRecompute)
    for (const int accumulate : kAccumulate)
      for (int zero = 0; zero < kZeroLevels; ++zero) work(Case{recompute, accumulate, zero});
}

RunConfig config_of(const Group& group) {
  RunConfig config = tiny_run(group.model);
  config.model.width = 64;
  config.train.batch = 32;
  config.train.precision.dtype = group.precision;
  return config;
}

constexpr std::string_view kEqual = "equal", kWrong = "wrong", kRefused = "refused";

/// What a case is, and more about it: Figures, the value that differs, or why the combination is
/// refused.
struct Outcome {
  std::string what, more;
};

/// Of the plans that equal the serial program, the largest.
struct Figures {
  double error = 0;           // of a tensor, as a share of its tolerance
  double loss_error = 0;      // as a share of the loss
  double loss_tolerance = 0;  // as a share of the loss
};

std::string figures_of(const VerifyReport& report) {
  Figures figures{.error = report.max_error};
  for (size_t step = 0; step < report.losses.size(); ++step) {
    const double serial = report.serial_losses[step];
    figures.loss_error =
        std::max(figures.loss_error, std::abs(report.losses[step] - serial) / serial);
    figures.loss_tolerance =
        std::max(figures.loss_tolerance, report.loss_tolerances[step] / serial);
  }
  std::ostringstream text;
  text << figures.error << " " << figures.loss_error << " " << figures.loss_tolerance;
  return text.str();
}

Outcome outcome_of(const RunConfig& config, const std::string& preset) {
  try {
    const Plan plan = preset_plan(parse_preset(preset), training_graph(config));
    const VerifyReport report =
        verify_plan(config, plan, small_text(), {.steps = 10, .tensor_steps = 1});
    if (report.ok) return {std::string(kEqual), figures_of(report)};
    const Difference& found = *report.first_difference;
    return {std::string(kWrong), found.value + " of step " + std::to_string(found.step) + ": " +
                                     std::to_string(found.distributed) + " for " +
                                     std::to_string(found.serial) + ", tolerance " +
                                     std::to_string(found.tolerance)};
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) return {std::string(kWrong), error.what()};
    return {std::string(kRefused), error.why()};
  } catch (const std::exception& error) {
    return {std::string(kWrong), error.what()};
  }
}

fs::path file_of(const fs::path& folder, const Group& group) {
  std::string name = group.name();
  for (char& letter : name)
    if (letter == ' ' || letter == ',') letter = '_';
  return folder / name;
}

/// One line: a preset, what, more; separated by tabs.
void run_group(const fs::path& folder, const Group& group) {
  const RunConfig config = config_of(group);
  std::string lines;
  for_each_case([&](const Case& each) {
    const std::string preset = preset_of(group.degrees, each);
    Outcome outcome = outcome_of(config, preset);
    for (char& letter : outcome.more)
      if (letter == '\n' || letter == '\t') letter = ' ';
    std::cout << group.model << " " << to_text(group.precision) << " " << preset << ": "
              << outcome.what << " " << outcome.more << std::endl;
    lines += preset + "\t" + outcome.what + "\t" + outcome.more + "\n";
  });
  write_file(file_of(folder, group), lines);
}

/// By preset; nullopt: the group has not run.
std::optional<std::map<std::string, Outcome>> results_of(const fs::path& folder,
                                                         const Group& group) {
  std::ifstream file(file_of(folder, group));
  if (!file) return std::nullopt;
  std::map<std::string, Outcome> results;
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    results[line.substr(0, first)] = {line.substr(first + 1, second - first - 1),
                                      line.substr(second + 1)};
  }
  return results;
}

struct Share {
  size_t part = 1, parts = 1;
};

/// "1/2"; nullopt: it is a word.
std::optional<Share> parse_share(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  Share share;
  std::from_chars(text.data(), text.data() + slash, share.part);
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), share.parts);
  return share;
}

bool run(const fs::path& folder, std::vector<std::string> words) {
  fs::create_directories(folder);
  Share share;
  if (!words.empty())
    if (const auto given = parse_share(words.front())) {
      share = *given;
      words.erase(words.begin());
    }
  bool is_right = true;
  const std::vector<Group> all = groups();
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_wanted =
        words.empty() || std::ranges::any_of(words, [&](const std::string& word) {
          return all[i].name().find(word) != std::string::npos;
        });
    if (!is_wanted || i % share.parts != share.part - 1) continue;
    if (!results_of(folder, all[i])) run_group(folder, all[i]);
    const auto results = results_of(folder, all[i]);
    is_right = is_right && std::ranges::none_of(*results, [](const auto& result) {
                 return result.second.what == kWrong;
               });
  }
  return is_right;
}

// ---- the page ----

struct Counts {
  int equal = 0, refused = 0, wrong = 0, missing = 0;
  Figures largest;
};

class Page {
 public:
  explicit Page(fs::path folder) : folder_(std::move(folder)) {}

  Counts print() {
    std::string tables;
    for (const char* model : kModels)
      for (const DType precision : kPrecisions) tables += table(model, precision);
    std::cout
        << "# Combinations\n\n"
           "`bench/combinations_bench.cpp` writes this page. It runs every combination of `dp`, "
           "`tp`, `pp`\n"
           "and `sp` on eight ranks with `zero`, `recompute`, `accumulate` and `train.precision`, "
           "for gpt and\n"
           "llama of 2 layers with 64 channels and 4 heads (llama: 2 of keys and values), a "
           "context "
           "of 8, a\n"
           "vocabulary of 50 and 32 rows. Each is compared as by [verify](verification.md): every "
           "tensor of\n"
           "the first step and the losses of ten steps with the serial program of the same "
           "precision, within\n"
           "the tolerances of rounding. A plan with stages has `micro_batches` = `pp` in each part "
           "of the\n"
           "accumulation.\n\n"
        << "Of " << total_.equal + total_.refused + total_.wrong + total_.missing
        << " combinations " << total_.equal << " equal the serial program, " << total_.refused
        << "\nare refused with the reason, and " << total_.wrong << " differ";
    if (total_.missing > 0)
      std::cout << "; " << total_.missing << " have not run, which have a question mark below";
    std::cout << ".\nThe largest error of a tensor is " << total_.largest.error
              << " of its tolerance; losses differ by at most " << total_.largest.loss_error
              << "\nof their value, and may by " << total_.largest.loss_tolerance
              << ".\n\nA cell has the levels of zero that equal the serial "
                 "program; the letter after a level says why it is\nrefused.\n"
              << tables << "\n## Why combinations are refused\n\n";
    std::map<char, std::string> by_letter;
    for (const auto& [reason, letter] : reasons_) by_letter[letter] = reason;
    for (const auto& [letter, reason] : by_letter)
      std::cout << "- **" << letter << "** (" << counted(times_.at(reason), "combination")
                << "): " << reason << "\n";
    return total_;
  }

 private:
  std::string table(const std::string& model, DType precision) {
    std::string text = "\n## " + model + ", " + std::string(to_text(precision)) + "\n\n| degrees |";
    for (const char* recompute : kRecompute)
      for (const int accumulate : kAccumulate)
        text += " " + std::string(recompute) + ", " + std::to_string(accumulate) + " |";
    text += "\n|---|---|---|---|---|---|---|\n";
    for (const Degrees& degrees : degrees_of_eight()) text += row({model, precision, degrees});
    return text;
  }

  std::string row(const Group& group) {
    const auto results = results_of(folder_, group);
    std::string text = "| `" + group.degrees.text() + "` |";
    for_each_case([&](const Case& each) {
      text += " " + std::to_string(each.zero) +
              (results ? mark_of(results->at(preset_of(group.degrees, each))) : missing());
      if (each.zero == kZeroLevels - 1) text += " |";
    });
    return text + "\n";
  }

  std::string missing() {
    ++total_.missing;
    return "?";
  }

  std::string mark_of(const Outcome& outcome) {
    if (outcome.what == kEqual) {
      ++total_.equal;
      Figures figures;
      std::istringstream(outcome.more) >> figures.error >> figures.loss_error >>
          figures.loss_tolerance;
      total_.largest.error = std::max(total_.largest.error, figures.error);
      total_.largest.loss_error = std::max(total_.largest.loss_error, figures.loss_error);
      total_.largest.loss_tolerance =
          std::max(total_.largest.loss_tolerance, figures.loss_tolerance);
      return "";
    }
    if (outcome.what == kWrong) {
      ++total_.wrong;
      return "!";
    }
    ++total_.refused;
    ++times_[outcome.more];
    const auto letter = static_cast<char>('a' + reasons_.size());
    return std::string(1, reasons_.emplace(outcome.more, letter).first->second);
  }

  fs::path folder_;
  Counts total_;
  std::map<std::string, char> reasons_;
  std::map<std::string, int> times_;
};

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() >= 2 && words[0] == "run")
    return tessera::run(words[1], {words.begin() + 2, words.end()}) ? 0 : 1;
  if (words.size() == 2 && words[0] == "table") {
    const tessera::Counts total = tessera::Page(words[1]).print();
    return total.wrong == 0 && total.missing == 0 ? 0 : 1;
  }
  std::cerr << "usage: combinations_bench run FOLDER [PART/PARTS] [WORD...] | table FOLDER\n";
  return 2;
}
