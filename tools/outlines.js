// Natural Earth's countries, as world-atlas has them, made into the two files of the bundled data.
// Run by outlines.py in a folder where the packages are installed: node outlines.js WORLD DETAIL
const fs = require("fs");
const client = require("topojson-client");
const simplify = require("topojson-simplify");
const iso = require("i18n-iso-countries");

// World-atlas gives these no number. The other areas without one (Northern Cyprus, Somaliland, …) have no code of two
// letters either: they are drawn, and never shaded.
const CODES = { Kosovo: "XK" };
// In steradians: triangles that are smaller are straightened, and islands that are smaller left out unless they are the
// largest of their country.
const TRIANGLE = 4e-6;
const ISLAND = 2e-5;

function coded(topology) {
  const { land, ...objects } = topology.objects;
  const result = { ...topology, objects };
  delete result.bbox;
  for (const geometry of objects.countries.geometries) {
    const code = (geometry.id && iso.numericToAlpha2(geometry.id)) || CODES[geometry.properties.name];
    delete geometry.properties;
    delete geometry.id;
    if (code) geometry.id = code;
  }
  return result;
}

function simplified(topology) {
  const areaOf = (arcs) => {
    const ring = client.feature(topology, { type: "Polygon", arcs }).geometry.coordinates[0];
    return simplify.sphericalRingArea(ring, false);
  };
  for (const geometry of topology.objects.countries.geometries) {
    if (geometry.type !== "MultiPolygon") continue;
    const areas = geometry.arcs.map(areaOf);
    const largest = Math.max(...areas);
    geometry.arcs = geometry.arcs.filter((_, at) => areas[at] === largest || areas[at] >= ISLAND);
  }
  const weighted = simplify.presimplify(topology, simplify.sphericalTriangleArea);
  const fewer = simplify.simplify(weighted, TRIANGLE);
  return client.quantize(simplify.filter(fewer, () => true), 1e4);
}

const [world, detail] = process.argv.slice(2);
const read = () => coded(JSON.parse(fs.readFileSync("node_modules/world-atlas/countries-50m.json", "utf8")));
fs.writeFileSync(detail, JSON.stringify(read()) + "\n");
fs.writeFileSync(world, JSON.stringify(simplified(read())) + "\n");
