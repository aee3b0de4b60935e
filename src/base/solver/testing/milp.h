// For tests: the problem as a mixed integer program, which another solver (COIN-OR CBC) solves
// where that is installed.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/solver/problem.h"
#include "base/text/text.h"

namespace tessera::solver {

/// The problem as a mixed integer program in the LP format: x_i_s is 1 when node i takes strategy
/// s, y_e_s_t when the ends of edge e take s and t.
class MilpProgram {
 public:
  explicit MilpProgram(const Problem& problem) : problem_(problem) {
    for (int32_t i = 0; i < problem.nodes(); ++i) add_node(i);
    for (int32_t e = 0; e < problem.edges(); ++e) add_edge(e);
    add_limits();
  }

  std::string text() const {
    return "minimize\nobj: " + sum_of(objective_) + " + 0 one\nsubject to\n" + rows_ +
           "one = 1\nbounds\n" + bounds_ + "binaries\n" + binaries_ + "end\n";
  }

 private:
  static std::string x(int32_t node, int32_t strategy) {
    return fmt::format("x_{}_{}", node, strategy);
  }

  void pay(Cost cost, const std::string& variable) {
    if (cost >= kForbidden)
      rows_ += variable + " = 0\n";
    else if (cost > 0)
      objective_[variable] += cost;
  }

  void hold(Interval interval, Usage usage, const std::string& variable) {
    if (usage > 0 && problem_.usage_limit())
      for (Moment time = interval.begin; time < interval.end; ++time)
        held_[time][variable] += usage;
  }

  void add_node(int32_t i) {
    std::string sum;
    for (int32_t s = 0; s < problem_.strategies(i); ++s) {
      sum += " + " + x(i, s);
      binaries_ += x(i, s) + "\n";
      pay(problem_.costs(problem_.node(i))[s], x(i, s));
      hold(problem_.node(i).interval, problem_.usages(problem_.node(i))[s], x(i, s));
    }
    rows_ += sum + " = 1\n";
  }

  void add_edge(int32_t e) {
    const Problem::Edge& edge = problem_.edge(e);
    std::vector<std::string> of_a(problem_.strategies(edge.a)), of_b(problem_.strategies(edge.b));
    for (int32_t s = 0; s < problem_.strategies(edge.a); ++s)
      for (int32_t t = 0; t < problem_.strategies(edge.b); ++t) {
        if (edge.a == edge.b && s != t) continue;
        const int64_t pair = int64_t{s} * problem_.strategies(edge.b) + t;
        const std::string y = edge.a == edge.b ? x(edge.a, s) : fmt::format("y_{}_{}_{}", e, s, t);
        pay(problem_.costs(edge)[pair], y);
        if (!problem_.usages(edge).empty()) hold(edge.interval, problem_.usages(edge)[pair], y);
        of_a[s] += " + " + y;
        of_b[t] += " + " + y;
      }
    if (edge.a == edge.b) return;
    for (size_t s = 0; s < of_a.size(); ++s)
      rows_ += fmt::format("{} - {} = 0\n", of_a[s], x(edge.a, static_cast<int32_t>(s)));
    for (size_t t = 0; t < of_b.size(); ++t)
      rows_ += fmt::format("{} - {} = 0\n", of_b[t], x(edge.b, static_cast<int32_t>(t)));
  }

  void add_limits() {
    for (const auto& [time, sum] : held_)
      rows_ += fmt::format("{} <= {}\n", sum_of(sum), *problem_.usage_limit());
  }

  /// CBC refuses a row that has a variable twice.
  using Sum = std::map<std::string, int64_t>;

  static std::string sum_of(const Sum& sum) {
    std::string text;
    for (const auto& [variable, factor] : sum) text += fmt::format(" + {} {}\n", factor, variable);
    return text;
  }

  const Problem& problem_;
  Sum objective_;
  std::string rows_, bounds_, binaries_;
  std::map<Moment, Sum> held_;
};

/// Is the program there?
inline bool has_cbc() {
  return std::system("command -v cbc > /dev/null") == 0;
}

/// The cost that CBC proves to be least, "none" when there is no assignment, "" when it does not
/// finish. Costs are whole numbers that it tells apart below about 1e9.
///   folder  where it leaves files
inline std::string min_cost_by_cbc(const Problem& problem, const std::filesystem::path& folder) {
  const std::filesystem::path program = folder / "problem.lp", answer = folder / "answer.txt";
  write_file(program, MilpProgram(problem).text());
  const std::string command =
      fmt::format("cbc {} -ratioGap 0 -allowableGap 0 -seconds 5 -solve -solution {} > {} 2>&1",
                  program.string(), answer.string(), (folder / "log").string());
  if (std::system(command.c_str()) != 0 || !std::filesystem::exists(answer)) return "";
  const std::string first = split_text(read_file(answer), '\n').front();
  std::filesystem::remove(answer);
  if (first.find("nfeasible") != std::string::npos) return "none";
  const size_t value = first.find("objective value");
  if (first.find("Optimal") != 0 || value == std::string::npos) return "";
  return fmt::format("{:.0f}", std::strtod(first.c_str() + value + 15, nullptr));
}

}  // namespace tessera::solver
