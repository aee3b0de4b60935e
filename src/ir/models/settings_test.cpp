#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

ModelConfig read(const std::string& text) {
  const Document document = parse_toml(text, "train.toml");
  ConfigTable file(&document, "", "train.toml");
  return read_model_config(file.table("model"));
}

std::string message_of(const std::string& text) {
  try {
    read(text);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "no error";
}

TEST(ReadModelConfig, ReadsTheKeysOfEachFamily) {
  const std::string common = "context = 8\nlayers = 3\nwidth = 30\ndropout = 0.5\n";
  for (const std::string kind : {"gpt", "mlp", "llama", "two_tower", "encoder_decoder"}) {
    const ModelConfig config =
        read("[model]\nkind = \"" + kind + "\"\n" + common + (kind == "mlp" ? "" : "heads = 5\n"));
    EXPECT_EQ(config.kind, kind);
    EXPECT_EQ(config.context, 8);
    EXPECT_EQ(config.layers, 3);
    EXPECT_EQ(config.width, 30);
    EXPECT_EQ(config.heads, kind == "mlp" ? ModelConfig().heads : 5);
    EXPECT_EQ(config.dropout, 0.5);
    EXPECT_EQ(config.vocabulary, ModelConfig().vocabulary);  // the data gives it
  }
  EXPECT_EQ(read("[model]\nkind = \"mlp\"\nembedding = 9\n").embedding, 9);
  EXPECT_TRUE(read("[model]\ntied = true\n").tied);
  const ModelConfig llama =
      read("[model]\nkind = \"llama\"\nkv_heads = 2\nffn = 50\nrope_base = 500.0\n");
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.ffn, 50);
  EXPECT_EQ(llama.rope_base, 500);
}

TEST(ReadModelConfig, WhatIsAbsentHasItsDefault) {
  const ModelConfig config = read("");
  EXPECT_EQ(config.kind, "gpt");
  EXPECT_EQ(config.width, 128);
  EXPECT_EQ(config.heads, 4);
}

TEST(ReadModelConfig, AnUnknownKeyIsRefusedWithTheNearest) {
  EXPECT_EQ(
      message_of("[model]\nlayer = 3\n"),
      "train.toml: unknown key 'model.layer'\n"
      "  why: legal keys here are context, dropout, heads, kind, layers, lora_alpha, lora_rank, "
      "lora_targets, tied, vocabulary, width\n"
      "  fix: did you mean 'model.layers'?");
}

TEST(ReadModelConfig, AnUnknownKindIsRefused) {
  EXPECT_EQ(message_of("[model]\nkind = \"rnn\"\n"),
            "train.toml: model.kind = \"rnn\" is not possible\n"
            "  why: model.kind must be one of gpt, mlp, llama, two_tower, encoder_decoder, bert, "
            "lstm, gru, image_mlp, resnet, unet, decoder, encoder, graph\n"
            "  fix: set model.kind to such a value");
}

TEST(ReadModelConfig, AValueOutOfRangeIsRefused) {
  EXPECT_EQ(message_of("[model]\nlayers = 0\n"),
            "train.toml: model.layers = 0 is not possible\n"
            "  why: model.layers must be an integer from 1 to 1000\n"
            "  fix: set model.layers to such a value");
  EXPECT_EQ(message_of("[model]\ndropout = 1.0\n"),
            "train.toml: model.dropout = 1.0 is not possible\n"
            "  why: model.dropout must be a number from 0.0 to 0.99\n"
            "  fix: set model.dropout to such a value");
}

TEST(ReadModelConfig, HeadsThatDoNotDivideTheWidthAreRefusedWithThoseThatDo) {
  EXPECT_EQ(message_of("[model]\nwidth = 12\nheads = 5\n"),
            "train.toml: model.heads = 5 does not divide model.width = 12\n"
            "  why: every head takes the same number of channels, width / heads\n"
            "  fix: set model.heads to one of 1, 2, 3, 4, 6, 12");
}

TEST(ReadModelConfig, AKeyOfAnotherFamilyIsRefusedWithThoseThatReadIt) {
  EXPECT_EQ(message_of("[model]\nkind = \"mlp\"\nheads = 4\n"),
            "train.toml: model.heads is no setting of a model of kind mlp\n"
            "  why: it is one of gpt, llama, two_tower, encoder_decoder, bert, decoder, encoder\n"
            "  fix: remove it, or choose another model.kind");
}

TEST(ReadModelConfig, KeyHeadsThatDoNotDivideTheHeadsAreRefusedWithThoseThatDo) {
  EXPECT_EQ(message_of("[model]\nkind = \"llama\"\nwidth = 24\nheads = 6\nkv_heads = 4\n"),
            "train.toml: model.kv_heads = 4 does not divide model.heads = 6\n"
            "  why: as many heads of queries share each head of keys and values, heads / kv_heads\n"
            "  fix: set model.kv_heads to one of 1, 2, 3, 6");
}

TEST(ReadModelConfig, RotaryHeadsOfAnOddNumberOfChannelsAreRefused) {
  EXPECT_EQ(message_of("[model]\nkind = \"llama\"\nwidth = 12\nheads = 4\n"),
            "train.toml: the heads of model.width = 12 and model.heads = 4 have 3 channels\n"
            "  why: rotary positions turn channels in pairs, so width / heads must be even\n"
            "  fix: set model.width to a multiple of 8");
}

TEST(ReadModelConfig, FormsThatTurnNothingOrDivideByZeroAreRefused) {
  const std::string decoder = "[model]\nkind = \"decoder\"\n";
  EXPECT_NE(message_of(decoder + "rotary_share = 0.01\n").find("less than two"), std::string::npos);
  EXPECT_NE(message_of(decoder + "rotary_scaling = \"llama3\"\nrotary_low = 4.0\n")
                .find("is not below model.rotary_high"),
            std::string::npos);
  EXPECT_NE(message_of("[model]\nkind = \"encoder\"\nwindow = 4\n").find("it is one of decoder"),
            std::string::npos);
}

TEST(ReadModelConfig, AnOddContextHasNoHalves) {
  for (const std::string kind : {"two_tower", "encoder_decoder"})
    EXPECT_EQ(message_of("[model]\nkind = \"" + kind + "\"\ncontext = 7\n"),
              "train.toml: model.context = 7 is odd\n"
              "  why: a model of kind " +
                  kind +
                  " takes the two halves of the context apart\n"
                  "  fix: set model.context to 8");
}

TEST(SettingsOf, ListsTheKeysOfTheFamilyWithTheirDefaultsFilledIn) {
  // 8/3 of 20 is 53.3; the next multiple of 8 is 56.
  EXPECT_EQ(to_json(settings_of({.kind = "llama",
                                 .vocabulary = 11,
                                 .context = 8,
                                 .layers = 3,
                                 .width = 20,
                                 .heads = 5,
                                 .dropout = 0.5})),
            R"({"kind":"llama","vocabulary":11,"context":8,"layers":3,"width":20,"dropout":0.5,)"
            R"("heads":5,"tied":false,"kv_heads":5,"ffn":56,"head":4,"qkv_bias":false,)"
            R"("head_norms":false,)"
            R"("rope_base":10000.0})");
}

}  // namespace
}  // namespace tessera
