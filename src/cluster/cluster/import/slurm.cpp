#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/internal/import/switch_tree.h"

namespace tessera {
namespace {

constexpr size_t kMaxMachineNames = 1 << 17;  // of machines and switches
constexpr int kMaxLevels = 16;
constexpr size_t kMaxSimilar = 64;  // letters of a name for which similar ones are looked for

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return result;
}

/// A line of the file; a line that ends with \ goes on in the next one.
struct Line {
  int number = 0;  // of the first one, from 1
  std::string text;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  int number = 0;
  bool goes_on = false;
  for (std::string_view line : split_text(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    const bool next_goes_on = line.ends_with('\\');
    if (next_goes_on) line = trim(line.substr(0, line.size() - 1));
    if (goes_on)
      lines.back().text += " " + std::string(line);
    else if (!line.empty() || next_goes_on)
      lines.push_back({number, std::string(line)});
    goes_on = next_goes_on;
  }
  return lines;
}

struct Switch {
  std::string name;
  int line = 0;
  std::vector<std::string> machines, switches;  // below it
  int parent = -1;
  int height = 0;  // above the machines, from 1; 0: not known yet
};

class SlurmReader {
 public:
  explicit SlurmReader(std::string file) : file_(std::move(file)) {}

  SwitchTree read(std::string_view text) {
    for (const Line& line : lines_of(text)) read_switch(line);
    if (switches_.empty())
      refuse(1, "the file names no switches", "a topology is a list of switches",
             "write lines such as SwitchName=s0 Nodes=n[0-15]");
    add_root_of_blocks();
    for (size_t i = 0; i < switches_.size(); ++i) join_children(static_cast<int>(i));
    check_root();
    set_heights();
    return levels();
  }

 private:
  [[noreturn]] void refuse(int line, const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(file_ + ":" + std::to_string(line) + ": " + what, why, fix,
                    ExitCode::kBadConfig);
  }

  // ---- lines ----

  void read_switch(const Line& line) {
    Switch next{"", line.number, {}, {}};
    bool is_block = false, is_sizes = false;
    std::string list;
    for (const std::string& word : words_of(line.text)) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
        refuse(line.number, "'" + word + "' is no key with a value",
               "a switch is a line of keys and values", "write SwitchName=s0 Nodes=n[0-15]");
      const std::string key = lower(word.substr(0, equals)), value = word.substr(equals + 1);
      is_block = is_block || key == "blockname";
      is_sizes = is_sizes || key == "blocksizes";
      if (key == "switchname" || key == "blockname") next.name = value;
      if (key == "nodes") next.machines = names_of(line.number, value);
      if (key == "switches") next.switches = names_of(line.number, value);
    }
    names_ += next.machines.size() + next.switches.size();
    if (names_ > kMaxMachineNames)
      refuse(line.number, "the file has more than " + grouped(kMaxMachineNames) + " names",
             "a description has at most as many machines and switches",
             "describe a part of the cluster");
    if (is_sizes && next.name.empty()) return;
    has_blocks_ = has_blocks_ || is_block;
    check_switch(next);
    if (const auto [known, is_new] = index_of_.emplace(next.name, std::ssize(switches_)); !is_new)
      refuse(line.number, "switch '" + next.name + "' is described twice",
             "line " + std::to_string(switches_[known->second].line) + " describes it, too",
             "join the two lines, or rename one of the switches");
    switches_.push_back(std::move(next));
  }

  static std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    for (std::string_view rest = trim(line); !rest.empty();) {
      const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
      words.emplace_back(rest.substr(0, end));
      rest = trim(rest.substr(end));
    }
    return words;
  }

  std::vector<std::string> names_of(int line, const std::string& list) const {
    try {
      return expand_names(list);
    } catch (const UserError& error) {
      refuse(line, error.what_happened(), error.why(), error.fix());
    }
  }

  void check_switch(const Switch& next) const {
    if (next.name.empty())
      refuse(next.line, "the line names no switch", "each line describes a switch",
             "begin it with SwitchName=NAME");
    if (next.machines.empty() == next.switches.empty())
      refuse(next.line,
             "switch '" + next.name + "' has " +
                 (next.machines.empty() ? "no children" : "Nodes and Switches"),
             "a switch joins either machines or other switches",
             "write Nodes=LIST or Switches=LIST");
  }

  /// Blocks have no switch above them in the file; they are joined.
  void add_root_of_blocks() {
    if (!has_blocks_ || switches_.size() < 2) return;
    Switch root{"(all blocks)", switches_.front().line, {}, {}};
    for (const Switch& block : switches_) root.switches.push_back(block.name);
    switches_.push_back(std::move(root));
  }

  // ---- the tree ----

  void join_children(int index) {
    const Switch& parent = switches_[index];
    for (const std::string& name : parent.machines) {
      const auto [known, is_new] = switch_of_machine_.emplace(name, index);
      if (!is_new)
        refuse(parent.line, "machine '" + name + "' is below switch '" + parent.name + "'",
               "it is also below switch '" + switches_[known->second].name + "' of line " +
                   std::to_string(switches_[known->second].line),
               "name it once");
      machines_.push_back(name);
    }
    for (const std::string& name : parent.switches) join_switch(index, name);
  }

  void join_switch(int index, const std::string& name) {
    const Switch& parent = switches_[index];
    const auto found = index_of_.find(name);
    if (found == index_of_.end()) {
      std::vector<std::string> names;
      for (const Switch& other : switches_)
        if (names.size() < 1000 && other.name.size() < kMaxSimilar) names.push_back(other.name);
      const std::string close = name.size() < kMaxSimilar ? nearest(name, names) : "";
      refuse(parent.line, "switch '" + parent.name + "' joins switch '" + name + "'",
             "no line describes a switch of this name",
             close.empty() ? "describe it with SwitchName=" + name : "write '" + close + "'");
    }
    Switch& child = switches_[found->second];
    if (child.parent >= 0)
      refuse(parent.line, "switch '" + name + "' is below switch '" + parent.name + "'",
             "it is also below switch '" + switches_[child.parent].name + "' of line " +
                 std::to_string(switches_[child.parent].line),
             "name it once: the switches are a tree");
    child.parent = index;
  }

  /// One switch has no parent. When none has, or a switch does not lead to it, there is a cycle.
  void check_root() {
    for (size_t i = 0; i < switches_.size(); ++i) {
      if (switches_[i].parent >= 0) continue;
      if (root_ >= 0)
        refuse(switches_[i].line,
               "no switch joins '" + switches_[i].name + "' with '" + switches_[root_].name + "'",
               "every two devices of a cluster can communicate",
               "add a line such as SwitchName=top Switches=" + switches_[root_].name + "," +
                   switches_[i].name);
      root_ = static_cast<int>(i);
    }
    if (root_ < 0) refuse_cycle(0);
  }

  [[noreturn]] void refuse_cycle(int index) const {
    std::set<int> seen;
    while (seen.insert(index).second) index = switches_[index].parent;
    const Switch& member = switches_[index];
    int child = index;
    while (switches_[child].parent != index) child = switches_[child].parent;
    refuse(member.line,
           "switch '" + member.name + "' is below itself: it joins '" + switches_[child].name + "'",
           "the switches are a tree, without a cycle",
           "remove one of the switches of the cycle from 'Switches'");
  }

  /// From the root downwards, so that a deep tree needs no deep recursion.
  void set_heights() {
    std::vector<int> order{root_};
    for (size_t i = 0; i < order.size(); ++i)
      for (const std::string& name : switches_[order[i]].switches)
        order.push_back(index_of_.at(name));
    for (auto index = order.rbegin(); index != order.rend(); ++index) {
      Switch& next = switches_[*index];
      next.height = std::max(next.height, 1);
      if (next.height > kMaxLevels)
        refuse(next.line, "switch '" + next.name + "' is on level " + std::to_string(next.height),
               "a network has at most " + std::to_string(kMaxLevels) + " levels of switches",
               "describe the levels that differ in their links");
      if (next.parent >= 0)
        switches_[next.parent].height = std::max(switches_[next.parent].height, next.height + 1);
    }
    for (size_t i = 0; i < switches_.size(); ++i)
      if (switches_[i].height == 0) refuse_cycle(static_cast<int>(i));
  }

  SwitchTree levels() const {
    SwitchTree tree{machines_, {}};
    std::vector<int> children;  // by child of a level: the switch that joins it there
    for (const std::string& machine : machines_) children.push_back(switch_of_machine_.at(machine));
    const int height = switches_[root_].height;
    for (int level = 1; level <= height; ++level) {
      std::map<int, int> number;  // of the switches of this level, in order of their children
      std::vector<int> groups, next;
      for (int at : children) {
        const auto [found, is_new] = number.emplace(at, std::ssize(number));
        groups.push_back(found->second);
        if (!is_new) continue;
        const int parent = switches_[at].parent;
        next.push_back(parent >= 0 && switches_[parent].height == level + 1 ? parent : at);
      }
      tree.switch_of_child.push_back(std::move(groups));
      children = std::move(next);
    }
    return tree;
  }

  const std::string file_;
  bool has_blocks_ = false;
  size_t names_ = 0;  // of machines and switches, on all lines
  std::vector<Switch> switches_;
  std::map<std::string, int> index_of_;  // by name
  std::vector<std::string> machines_;
  std::map<std::string, int> switch_of_machine_;
  int root_ = -1;
};

}  // namespace

SwitchTree parse_slurm_topology(std::string_view text, const std::string& file) {
  return SlurmReader(file).read(text);
}

}  // namespace tessera
