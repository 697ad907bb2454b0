// Asks llama.cpp for the memory of each case, without loading weights: JSON on standard input and output.
// A case is {file, context, ubatch, parallel, flash, kv}; an answer has bytes, or the reason for a rejection.
import {getLlama, LlamaLogLevel} from "node-llama-cpp";
import {readFileSync} from "node:fs";
import {text} from "node:stream/consumers";

const KV_TYPES = {f32: 0, f16: 1, q4_0: 2, q4_1: 3, q5_0: 6, q5_1: 7, q8_0: 8, bf16: 30};
const KEPT = /(compute buffer|memory_recurrent|llama_kv_cache|error|fail)/i;

const gpu = process.env.JUDGE_BACKEND === "vulkan" ? "vulkan" : false;
let lines = [];
// The log arrives in a later turn of the event loop.
const logDelivered = () => new Promise((done) => setTimeout(done, 20));

const llama = await getLlama({
    gpu, build: "never", logLevel: LlamaLogLevel.debug,
    logger: (_, message) => lines.push(...message.split("\n").filter((line) => KEPT.test(line)))
});
const {AddonModel, AddonContext} = llama._bindings;

const answers = [];
let open = {file: undefined};
for (const one of JSON.parse(await text(process.stdin)))
    answers.push(await judge(one));
process.stdout.write(JSON.stringify({versions: versions(), answers}), () => process.exit(0));

function versions() {
    const library = JSON.parse(readFileSync("node_modules/node-llama-cpp/package.json")).version;
    const release = JSON.parse(readFileSync("node_modules/node-llama-cpp/llama/binariesGithubRelease.json")).release;
    const devices = llama._bindings.getGpuDeviceInfo().deviceNames;
    return [`llama.cpp ${release} in node-llama-cpp ${library}`, ...devices].join(", ");
}

async function judge(one) {
    const loaded = await model(one.file);
    lines = [];
    const context = new AddonContext(loaded, {
        contextSize: one.context, batchSize: one.ubatch, sequences: one.parallel, flashAttention: one.flash,
        kvCacheKeyType: KV_TYPES[one.kv], kvCacheValueType: KV_TYPES[one.kv]
    });
    const accepted = await context.init();
    await logDelivered();
    if (!accepted)
        return {rejected: lines.at(-1) ?? "no context"};
    const weights = loaded.getMemoryBreakdown();
    const booked = context.getMemoryBreakdown();
    const cache = sum(/(?:llama_kv_cache\w*|llama_memory_recurrent): size = +([\d.]+) MiB/);
    const answer = {
        weights: weights.cpuRam + weights.gpuVram, cache, compute: booked.cpuRam + booked.gpuVram - cache,
        device_weights: weights.gpuVram, device_compute: devices(booked.gpuVram - cache)
    };
    await context.dispose();
    return answer;
}

// With one device the sum is exact; with several, the log has each device in hundredths of a MiB.
function devices(all) {
    const printed = gpu ? values(/Vulkan\d+ compute buffer size = +([\d.]+) MiB/).map(mib) : [];
    return printed.length === 1 ? [all] : printed;
}

// Only one model is open at a time.
async function model(file) {
    if (open.file !== file) {
        await open.model?.dispose();
        const loaded = new AddonModel(file, {noAlloc: true, useMmap: false, gpuLayers: gpu ? 999 : 0});
        if (!await loaded.init())
            throw new Error(`llama.cpp does not accept ${file}: ${lines.join("; ")}`);
        open = {file, model: loaded};
    }
    return open.model;
}

function sum(pattern) {
    return mib(values(pattern).reduce((all, one) => all + one, 0));
}

function values(pattern) {
    return lines.map((line) => pattern.exec(line)?.[1]).filter(Boolean).map(Number);
}

function mib(number) {
    return Math.round(number * 1024 * 1024);
}
