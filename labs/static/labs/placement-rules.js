// What a placement means, and what is wrong with it: the rules of the lab, for the editor. The server has the last word.
// Slot s lies on GPU ⌊s ÷ (slots ÷ GPUs)⌋, GPU g on node ⌊g ÷ (GPUs ÷ nodes)⌋; groups are runs of neighbouring experts.

/**
 * @typedef {object} Scene
 * @property {number} layers
 * @property {number} experts
 * @property {number} gpus
 * @property {number} nodes
 * @property {number} groups
 * @property {number} slots of all GPUs, in one layer
 * @property {number[][]} load [layer][expert] observed
 * @property {number[][] | null} balancer [layer][slot], where the task shows it
 * @property {boolean} groups_stay_in_node
 */
/** @typedef {(number | null)[]} Row [slot] → expert; null: not filled in */

/**
 * Every expert at home; spare slots hold their GPU's first expert again, which helps nobody.
 * @param {Scene} scene
 * @returns {number[][]} [layer][slot]
 */
export function contiguous({ layers, experts, gpus, slots }) {
  const home = experts / gpus;
  const perGpu = slots / gpus;
  const row = Array.from({ length: slots }, (_, slot) => {
    const place = slot % perGpu;
    return Math.floor(slot / perGpu) * home + (place < home ? place : 0);
  });
  return Array.from({ length: layers }, () => [...row]);
}

/**
 * The observed load that each GPU would carry: a copy carries its expert's load ÷ copies.
 * @param {Scene} scene
 * @param {number} layer
 * @param {Row} row
 * @returns {number[]} [gpu]
 */
export function loadsOf({ load, gpus, slots }, layer, row) {
  const loads = Array.from({ length: gpus }, () => 0);
  row.forEach((expert, slot) => {
    if (expert === null || !(expert in load[layer])) return;
    const copies = row.filter((one) => one === expert).length;
    loads[Math.floor(slot / (slots / gpus))] += load[layer][expert] / copies;
  });
  return loads;
}

/**
 * @param {Scene} scene
 * @param {number} layer
 * @param {Row} row
 * @returns {{slot?: number, text: string}[]}
 */
export function faultsIn(scene, layer, row) {
  const { experts, gpus, slots } = scene;
  const perGpu = slots / gpus;
  /** @type {{slot?: number, text: string}[]} */
  const faults = [];
  row.forEach((expert, slot) => {
    const place = `GPU ${Math.floor(slot / perGpu)}, slot ${slot % perGpu}`;
    if (expert === null) faults.push({ slot, text: `${place} holds no expert` });
    else if (expert >= experts) faults.push({ slot, text: `${place}: there is no expert ${expert}; the last is ${experts - 1}` });
  });
  for (let expert = 0; expert < experts; expert += 1) {
    if (!row.includes(expert)) faults.push({ text: `Expert ${expert} has no slot in layer ${layer}` });
  }
  return scene.groups_stay_in_node ? [...faults, ...strays(scene, row)] : faults;
}

/**
 * Slots whose expert's group already lies on another node.
 * @param {Scene} scene
 * @param {Row} row
 */
function strays({ experts, groups, gpus, nodes, slots }, row) {
  const size = experts / groups;
  /** @type {Map<number, number>} group → node of its first slot */
  const home = new Map();
  return row.flatMap((expert, slot) => {
    if (expert === null || expert >= experts) return [];
    const group = Math.floor(expert / size);
    const node = Math.floor(slot / (slots / nodes));
    if (!home.has(group)) home.set(group, node);
    if (home.get(group) === node) return [];
    const place = `GPU ${Math.floor(slot / (slots / gpus))}, slot ${slot % (slots / gpus)}`;
    return [{ slot, text: `${place}: expert ${expert} is of group ${group}, which lies on node ${home.get(group)}; a group's copies share one node` }];
  });
}
