#include "frontend/models/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/testing/test_folder.h"
#include "frontend/models/internal/hugging_face.h"
#include "ir/models/family.h"
#include "ir/models/graph_file.h"
#include "ir/models/graphs.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::filesystem::path kKnown =
    std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / "models";

int64_t parameters_of(const RunConfig& config) {
  RunConfig one = config;
  one.train.batch = 1;
  const Graph graph = training_graph(one);
  int64_t count = 0;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) count += element_count(graph.type(variable.value).shape);
  return count;
}

TEST(ModelFile, OfAGraphIsTheModelThatWroteIt) {
  const ModelFile llama =
      read_model_file("tinyllama-1.1b", {.sets = {"model.layers=2"}, .known = kKnown});
  const TestFolder folder;
  write_file(folder / "llama.graph", graph_file_text(llama.config.run.model));
  const RunConfig read = read_model_file((folder / "llama.graph").string(), {}).config.run;
  EXPECT_EQ(read.model.context, llama.config.run.model.context);
  EXPECT_EQ(read.model.vocabulary, 32'000);
  EXPECT_EQ(
      to_text(forward_graph(network_of(read.model), ForwardPurpose::kTraining, 3, 1)),
      to_text(forward_graph(network_of(llama.config.run.model), ForwardPurpose::kTraining, 3, 1)));
}

TEST(ModelFile, SettingsOfAGraphNeedNoFile) {
  const TestFolder folder;
  write_file(
      folder / "net.graph",
      graph_file_text(
          read_model_file("gpt2", {.sets = {"model.layers=1"}, .known = kKnown}).config.run.model));
  const RunConfig run = read_model_file((folder / "net.graph").string(), {}).config.run;
  std::filesystem::remove(folder / "net.graph");
  const RunConfig again = read_settings(resolved_settings(run), "a run");
  EXPECT_EQ(to_text(training_graph(again)), to_text(training_graph(run)));
}

// The counts that listings of these models have. The other known models are of the same kinds.
TEST(KnownModels, HaveTheirPublishedParameters) {
  const std::map<std::string, int64_t> published{{"gpt2", 124'439'808},
                                                 {"gpt2-xl", 1'557'611'200},
                                                 {"tinyllama-1.1b", 1'100'048'384},
                                                 {"llama2-7b", 6'738'415'616},
                                                 {"llama2-70b", 68'976'648'192},
                                                 {"llama3-8b", 8'030'261'248},
                                                 {"llama3-70b", 70'553'706'496},
                                                 {"llama3-405b", 405'853'388'800},
                                                 {"mistral-7b", 7'241'732'096},
                                                 {"mistral-nemo", 12'247'782'400},
                                                 {"llama3.2-1b", 1'235'814'400},
                                                 {"qwen2.5-0.5b", 494'032'768},
                                                 {"qwen2.5-7b", 7'615'616'512},
                                                 {"qwen3-0.6b", 596'049'920},
                                                 {"qwen3-8b", 8'190'735'360},
                                                 {"qwen3-32b", 32'762'123'264},
                                                 {"qwen2.5-72b", 72'706'203'648},
                                                 {"llama3.2-3b", 3'212'749'824},
                                                 {"mistral-large", 122'610'069'504},
                                                 {"solar-10.7b", 10'731'524'096},
                                                 {"deepseek-7b", 6'910'365'696},
                                                 {"yi-6b", 6'061'035'520},
                                                 {"yi-34b", 34'388'917'248},
                                                 {"codellama-34b", 33'743'970'304},
                                                 {"llama2-13b", 13'015'864'320}};
  for (const auto& [name, count] : published)
    EXPECT_EQ(parameters_of(read_model_file(name, {.known = kKnown}).config.run), count) << name;
}

TEST(KnownModels, AreAllReadWithoutKeysThatAreNotUnderstood) {
  const std::vector<std::string> names = known_models(kKnown);
  EXPECT_GE(names.size(), 25U);
  for (const std::string& name : names)
    EXPECT_THAT(read_model_file(name, {.known = kKnown}).notes, SizeIs(1)) << name;
}

TEST(KnownModels, ANameThatIsNoneIsRefusedWithTheNearest) {
  try {
    read_model_file("llama3-9b", {.known = kKnown});
    FAIL() << "it is none";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kMissingInput);
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'llama3-8b'?"));
  }
}

constexpr const char* kLlama =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100)";

ReadModel read(const std::string& more) {
  return read_hugging_face(parse_json(kLlama + more + "}", "config.json"), "config.json");
}

std::string error_of(const std::string& text) {
  try {
    read_hugging_face(parse_json(text, "config.json"), "config.json");
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    return error.what();
  }
  return "";
}

TEST(HuggingFace, WhatIsLeftOutHasTheDefaultsOfTransformers) {
  const ReadModel model = read("");
  const Document& sizes = *model.settings.find("model");
  EXPECT_EQ(sizes.find("kv_heads")->as_int(), 4);
  EXPECT_EQ(sizes.find("context")->as_int(), 2048);
  EXPECT_EQ(sizes.find("rope_base")->as_double(), 10000);
  EXPECT_THAT(model.notes, IsEmpty());
}

TEST(HuggingFace, KeysOfTransformersFourAndFiveAreRead) {
  const auto base = [](const ReadModel& model) {
    return model.settings.find("model")->find("rope_base")->as_double();
  };
  EXPECT_EQ(base(read(R"(, "rope_theta": 500000.0)")), 500000);
  const ReadModel five = read(
      R"(, "dtype": "float16", "rope_parameters": {"rope_type": "default", "rope_theta": 7e5})");
  EXPECT_EQ(base(five), 7e5);
  EXPECT_EQ(five.settings.find("train")->find("precision")->as_string(), "f16");
  EXPECT_THAT(five.notes, IsEmpty());
}

TEST(HuggingFace, WhatIsNotComputedOrNotReadIsNamed) {
  const ReadModel model =
      read(R"(, "rope_scaling": {"type": "yarn", "factor": 8.0}, "number_of_experts": 8)");
  ASSERT_THAT(model.notes, SizeIs(2));
  EXPECT_THAT(model.notes[0], HasSubstr("'yarn'"));
  EXPECT_THAT(model.notes[1], HasSubstr("number_of_experts"));
}

TEST(HuggingFace, ArithmeticThatNoModelHereHasIsRefused) {
  EXPECT_THAT(error_of(std::string(kLlama) + R"(, "hidden_act": "softplus"})"),
              HasSubstr("config.json: hidden_act is"));
  EXPECT_THAT(error_of(R"({"model_type": "opt", "hidden_size": 64, "num_attention_heads": 4,
                           "num_hidden_layers": 2, "word_embed_proj_dim": 32})"),
              HasSubstr("config.json: word_embed_proj_dim is"));
  EXPECT_THAT(error_of(R"({"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4,
                           "num_hidden_layers": 2, "intermediate_size": 9, "is_decoder": true})"),
              HasSubstr("config.json: is_decoder is"));
  EXPECT_THAT(error_of(R"({"model_type": "mamba"})"),
              HasSubstr("gpt2, llama, mistral, qwen2, qwen3"));
}

TEST(HuggingFace, MalformedSizesAreRefused) {
  EXPECT_THAT(error_of(R"({"model_type": "llama"})"), HasSubstr("has no hidden_size"));
  for (const char* size : {"0", "-4", "1.5", "\"64\"", "[64]", "99999999999"})
    EXPECT_THAT(error_of(R"({"model_type": "gpt2", "n_embd": )" + std::string(size) + "}"),
                HasSubstr("n_embd is "));
}

}  // namespace
}  // namespace tessera
