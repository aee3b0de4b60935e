#include "base/solver/contest_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files/gzip.h"

namespace tessera::solver {
namespace {

/// Skipping is recursive: the depth of the stack.
constexpr int kMaxDepth = 256;

/// Consecutive lists of numbers.
struct Rows {
  std::vector<int64_t> numbers;
  std::vector<size_t> starts{0};

  size_t size() const { return starts.size() - 1; }
  std::span<const int64_t> operator[](size_t i) const {
    return {numbers.data() + starts[i], starts[i + 1] - starts[i]};
  }
};

/// Reads a JSON text once and parses numbers immediately, without building a tree of values.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()), name_(name) {}

  /// Calls on_key(key) for each key of an object. It reads the value.
  template <typename OnKey>
  void object(const OnKey& on_key) {
    expect('{', "an object");
    if (take('}')) return;
    do {
      const std::string key = text();
      expect(':', "a colon");
      on_key(key);
    } while (take(','));
    expect('}', "a comma or the end of an object");
  }

  void rows(Rows& rows) {
    if (rows.size() > 0) refuse("this list is there a second time", "remove one of them");
    expect('[', "a list of lists");
    if (take(']')) return;
    do {
      row(rows.numbers);
      rows.starts.push_back(rows.numbers.size());
    } while (take(','));
    expect(']', "a comma or the end of a list");
  }

  int64_t whole_number() {
    // 19 digits fit an unsigned one.
    constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
    skip_space();
    const char* const start = at_;
    const bool negative = at_ < end_ && *at_ == '-';
    if (negative) ++at_;
    uint64_t value = 0;
    const char* const digits = at_;
    while (at_ < end_ && static_cast<unsigned char>(*at_ - '0') < 10)
      value = value * 10 + static_cast<uint64_t>(*at_++ - '0');
    const bool ends_there = at_ >= end_ || (*at_ != '.' && *at_ != 'e' && *at_ != 'E');
    if (at_ == digits || at_ - digits > 19 || value > kLargest || !ends_there)
      return unusual_number(start, digits, negative);
    return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  }

  /// Skips a value of a key that is not known.
  ///   depth  of the lists and objects around it
  void skip_value(int depth = 0) {
    if (depth > kMaxDepth)
      refuse(fmt::format("lists and objects may be nested {} deep", kMaxDepth),
             "remove the key that is not known");
    skip_space();
    if (at_ >= end_)
      refuse("the text ends where a value is expected", "the file may be cut off: fetch it again");
    if (*at_ == '{') return object([&](const std::string&) { skip_value(depth + 1); });
    if (*at_ == '"') return static_cast<void>(text());
    if (*at_ == '[') return skip_list(depth);
    const char* const start = at_;
    while (at_ < end_ &&
           (std::isalnum(static_cast<unsigned char>(*at_)) || std::strchr("+-.", *at_)))
      ++at_;
    if (at_ == start) refuse("a value is expected", "write a number, a text, a list or an object");
  }

  void finish() {
    skip_space();
    if (at_ < end_) refuse("something follows the end of the problem", "remove it");
  }

  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    const char* const place = std::min(at_, end_);
    const auto line = 1 + std::count(begin_, place, '\n');
    const char* line_begin = place;
    while (line_begin > begin_ && line_begin[-1] != '\n') --line_begin;
    throw UserError(fmt::format("'{}' is not a problem: line {}, column {}", name_, line,
                                place - line_begin + 1),
                    why, fix, ExitCode::kBadData);
  }

 private:
  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  bool take(char letter) {
    skip_space();
    if (at_ >= end_ || *at_ != letter) return false;
    ++at_;
    return true;
  }

  void expect(char letter, const std::string& what) {
    if (take(letter)) return;
    if (at_ >= end_)
      refuse("the text ends where " + what + " is expected",
             "the file may be cut off: fetch it again");
    refuse(fmt::format("{} is expected, and '{}' found", what, *at_),
           fmt::format("'{}' belongs here", letter));
  }

  std::string text() {
    expect('"', "a text in quotes");
    std::string letters;
    for (; at_ < end_ && *at_ != '"'; ++at_) {
      if (*at_ == '\\') letters += *at_++;
      if (at_ < end_) letters += *at_;
    }
    if (at_ >= end_)
      refuse("the text ends within quotes", "the file may be cut off: fetch it again");
    ++at_;
    return letters;
  }

  void row(std::vector<int64_t>& numbers) {
    expect('[', "a list of numbers");
    if (take(']')) return;
    do numbers.push_back(whole_number());
    while (at_ < end_ && *at_ == ',' ? (++at_, true) : take(','));
    expect(']', "a comma or the end of a list");
  }

  void skip_list(int depth) {
    expect('[', "a list");
    if (take(']')) return;
    do skip_value(depth + 1);
    while (take(','));
    expect(']', "a comma or the end of a list");
  }

  /// Other programs may write 1000000000000000000 as 1e18 or with a fraction of zeros.
  int64_t unusual_number(const char* start, const char* digits, bool negative) {
    if (at_ == digits) {
      at_ = start;
      refuse("a whole number is expected", "costs, usages and nodes are whole numbers");
    }
    while (at_ < end_ &&
           (std::isdigit(static_cast<unsigned char>(*at_)) || std::strchr("+-.eE", *at_)))
      ++at_;
    const long double value = std::strtold(std::string(digits, at_).c_str(), nullptr);
    if (!(value < 9.2e18L) || value != static_cast<long double>(static_cast<int64_t>(value))) {
      at_ = start;
      refuse("this is not a whole number of 64 bits",
             "costs and usages are whole numbers below 9.2e18; 1e18 and above is forbidden");
    }
    return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  const std::string& name_;
};

/// The lists of a file, before it is checked that they fit each other.
struct Lists {
  Rows node_intervals, node_costs, node_usages;
  Rows edge_nodes, edge_costs, edge_intervals, edge_usages;
  std::optional<Usage> usage_limit;
};

void read_lists(Scanner& scanner, Lists& lists) {
  const auto nodes = [&](const std::string& key) {
    if (key == "intervals") return scanner.rows(lists.node_intervals);
    if (key == "costs") return scanner.rows(lists.node_costs);
    if (key == "usages") return scanner.rows(lists.node_usages);
    scanner.skip_value();
  };
  const auto edges = [&](const std::string& key) {
    if (key == "nodes") return scanner.rows(lists.edge_nodes);
    if (key == "costs") return scanner.rows(lists.edge_costs);
    if (key == "intervals") return scanner.rows(lists.edge_intervals);
    if (key == "usages") return scanner.rows(lists.edge_usages);
    scanner.skip_value();
  };
  const auto problem = [&](const std::string& key) {
    if (key == "nodes") return scanner.object(nodes);
    if (key == "edges") return scanner.object(edges);
    if (key == "usage_limit") {
      lists.usage_limit = scanner.whole_number();
      return;
    }
    scanner.skip_value();
  };
  bool found = false;
  scanner.object([&](const std::string& key) {
    if (key != "problem") return scanner.skip_value();
    found = true;
    scanner.object(problem);
  });
  scanner.finish();
  if (!found)
    scanner.refuse("there is no key \"problem\"",
                   "the whole file is one object: {\"problem\": {\"nodes\": ..., \"edges\": ...}}");
}

class Assembly {
 public:
  Assembly(const Lists& lists, const std::string& name) : lists_(lists), name_(name) {}

  Problem problem() {
    const size_t nodes = lists_.node_costs.size();
    same_length("nodes.intervals", lists_.node_intervals.size(), "nodes.costs", nodes);
    same_length("nodes.usages", lists_.node_usages.size(), "nodes.costs", nodes);
    same_length("edges.nodes", lists_.edge_nodes.size(), "edges.costs", lists_.edge_costs.size());
    for (const Rows* optional : {&lists_.edge_intervals, &lists_.edge_usages})
      if (optional->size() > 0)
        same_length("edges.intervals and edges.usages", optional->size(), "edges.costs",
                    lists_.edge_costs.size());
    const std::vector<std::vector<Cost>> extra = costs_of_lone_edges();
    Problem problem;
    for (size_t i = 0; i < nodes; ++i) {
      const std::span<const Cost> costs =
          extra[i].empty() ? lists_.node_costs[i] : std::span<const Cost>(extra[i]);
      problem.add_node(interval("nodes", lists_.node_intervals, i), costs, lists_.node_usages[i]);
    }
    for (size_t e = 0; e < lists_.edge_costs.size(); ++e) add_edge(problem, e);
    problem.set_usage_limit(lists_.usage_limit);
    return problem;
  }

 private:
  [[noreturn]] void refuse(const std::string& where, const std::string& why,
                           const std::string& fix) const {
    throw UserError("'" + name_ + "' is not a problem: " + where, why, fix, ExitCode::kBadData);
  }

  void same_length(const char* what, size_t length, const char* other, size_t expected) const {
    if (length != expected)
      refuse(what, fmt::format("{} has {} entries, {} has {}", what, length, other, expected),
             "give as many of each");
  }

  Interval interval(const char* what, const Rows& intervals, size_t index) const {
    if (intervals[index].size() != 2)
      refuse(fmt::format("{}.intervals[{}]", what, index),
             fmt::format("it has {} numbers", intervals[index].size()),
             "an interval is [begin, end]");
    return {intervals[index][0], intervals[index][1]};
  }

  int32_t node_of(size_t edge, size_t place) const {
    const int64_t node = lists_.edge_nodes[edge][place];
    if (node < 0 || node >= std::ssize(lists_.node_costs))
      refuse(fmt::format("edges.nodes[{}]", edge),
             fmt::format("it names node {} of {}", node, lists_.node_costs.size()),
             "name nodes by their number, from 0");
    return static_cast<int32_t>(node);
  }

  /// Edges from a node to itself become costs of the node.
  std::vector<std::vector<Cost>> costs_of_lone_edges() const {
    std::vector<std::vector<Cost>> sums(lists_.node_costs.size());
    for (size_t e = 0; e < lists_.edge_costs.size(); ++e) {
      const size_t ends = lists_.edge_nodes[e].size();
      if (ends != 1 && ends != 2)
        refuse(fmt::format("edges.nodes[{}]", e), fmt::format("it has {} nodes", ends),
               "an edge has two, or one");
      if (ends == 2) continue;
      const int32_t node = node_of(e, 0);
      const std::span<const Cost> costs = lists_.edge_costs[e];
      std::vector<Cost>& sum = sums[node];
      if (sum.empty()) sum.assign(lists_.node_costs[node].begin(), lists_.node_costs[node].end());
      if (costs.size() != sum.size())
        refuse(fmt::format("edges.costs[{}]", e),
               fmt::format("it has {} costs and node {} has {} strategies", costs.size(), node,
                           sum.size()),
               "give one cost a strategy");
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] = std::min(sum[s], kForbidden) + std::min(costs[s], kForbidden);
    }
    return sums;
  }

  void add_edge(Problem& problem, size_t e) const {
    if (lists_.edge_nodes[e].size() == 1) return;
    const int32_t a = node_of(e, 0), b = node_of(e, 1);
    if (lists_.edge_usages.size() == 0 || lists_.edge_usages[e].empty()) {
      problem.add_edge(a, b, lists_.edge_costs[e]);
    } else {
      const Interval held = lists_.edge_intervals.size() == 0
                                ? Interval{}
                                : interval("edges", lists_.edge_intervals, e);
      problem.add_edge(a, b, lists_.edge_costs[e], held, lists_.edge_usages[e]);
    }
  }

  const Lists& lists_;
  const std::string& name_;
};

template <typename Entry>
std::string list_text(int32_t count, const Entry& entry) {
  std::string text = "[";
  for (int32_t i = 0; i < count; ++i) text += (i ? "," : "") + entry(i);
  return text + "]";
}

std::string numbers_text(std::span<const int64_t> numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::string interval_text(Interval interval) {
  return fmt::format("[{},{}]", interval.begin, interval.end);
}

}  // namespace

Problem parse_problem(std::string_view text, const std::string& name) {
  Lists lists;
  Scanner scanner(text, name);
  read_lists(scanner, lists);
  return Assembly(lists, name).problem();
}

Problem read_problem(const std::filesystem::path& path) {
  return parse_problem(read_inflated(path), path.string());
}

std::string to_json(const Problem& problem) {
  const auto of_node = [&](const auto& form) {
    return list_text(problem.nodes(),
                     [&](int32_t i) { return std::string(form(problem.node(i))); });
  };
  const auto of_edge = [&](const auto& form) {
    return list_text(problem.edges(),
                     [&](int32_t e) { return std::string(form(problem.edge(e))); });
  };
  using Node = Problem::Node;
  using Edge = Problem::Edge;
  const std::string nodes =
      fmt::format(R"({{"intervals":{},"costs":{},"usages":{}}})",
                  of_node([](const Node& node) { return interval_text(node.interval); }),
                  of_node([&](const Node& node) { return numbers_text(problem.costs(node)); }),
                  of_node([&](const Node& node) { return numbers_text(problem.usages(node)); }));
  std::string edges =
      fmt::format(R"({{"nodes":{},"costs":{})",
                  of_edge([](const Edge& edge) { return fmt::format("[{},{}]", edge.a, edge.b); }),
                  of_edge([&](const Edge& edge) { return numbers_text(problem.costs(edge)); }));
  bool any_held = false;
  for (int32_t e = 0; e < problem.edges(); ++e)
    any_held |= !problem.usages(problem.edge(e)).empty();
  if (any_held)
    edges +=
        fmt::format(R"(,"intervals":{},"usages":{})",
                    of_edge([](const Edge& edge) { return interval_text(edge.interval); }),
                    of_edge([&](const Edge& edge) { return numbers_text(problem.usages(edge)); }));
  const std::string limit =
      problem.usage_limit() ? fmt::format(R"(,"usage_limit":{})", *problem.usage_limit()) : "";
  return fmt::format(R"({{"problem":{{"nodes":{},"edges":{}}}{}}}}})", nodes, edges, limit);
}

}  // namespace tessera::solver
