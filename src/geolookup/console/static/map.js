"use strict";
// The map of the page Map, by Leaflet. Whatever a place is called is text: nothing here makes HTML of it.
(() => {
  const box = document.getElementById("map");
  if (!box || !window.L) return;
  const CELL = 36; // pixels in which points are grouped
  const MOST_NAMED = 30;
  box.hidden = false;
  const still = { zoomAnimation: false, fadeAnimation: false, markerZoomAnimation: false, inertia: false };
  const map = L.map(box, { crs: L.CRS.EPSG4326, attributionControl: false, minZoom: 0, maxZoom: 9, zoomSnap: 0.25, worldCopyJump: false, ...still });
  map.fitBounds([[-56, -168], [78, 178]]);

  const element = (name, text, href) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (href) made.href = href;
    return made;
  };
  const open = { autoPanPaddingTopLeft: [56, 8] }; // beside the buttons
  const popup = (lines) => { const made = element("div"); made.append(...lines); return made; };
  const paragraph = (...parts) => { const made = element("p"); made.append(...parts); return made; };

  // TopoJSON: each point of an arc is the difference from the one before; a number below zero is an arc walked backwards.
  const decoded = (topology) => {
    const [[wide, high], [left, low]] = [topology.transform.scale, topology.transform.translate];
    const arcs = topology.arcs.map((arc) => {
      let x = 0, y = 0;
      return arc.map(([dx, dy]) => { x += dx; y += dy; return [y * high + low, x * wide + left]; });
    });
    const joined = (numbers) => numbers.flatMap((number) => (number >= 0 ? arcs[number] : [...arcs[~number]].reverse()));
    // A ring that crosses the 180th degree goes on beyond it; one around the pole is closed there.
    const ring = (numbers) => {
      let turn = 0, before = null;
      const points = joined(numbers).map(([latitude, longitude]) => {
        if (before !== null && Math.abs(longitude - before) > 180) turn += longitude > before ? -360 : 360;
        before = longitude;
        return [latitude, longitude + turn];
      });
      const [first, last] = [points[0][1], points[points.length - 1][1]];
      return Math.abs(last - first) > 180 ? [...points, [-90, last], [-90, first]] : points;
    };
    return topology.objects.countries.geometries.map((geometry) => ({
      code: geometry.id || "",
      polygons: (geometry.type === "MultiPolygon" ? geometry.arcs : [geometry.arcs]).map((polygon) => polygon.map(ring)),
    }));
  };

  const shapes = new Map();
  const shading = () => {
    const given = document.getElementById("shades");
    return given ? { unit: given.dataset.unit, of: JSON.parse(given.dataset.shades) } : { unit: "", of: {} };
  };
  const shade = () => {
    const { of } = shading();
    for (const [code, layer] of shapes) {
      const path = layer.getElement();
      if (path) path.setAttribute("class", `leaflet-interactive country${of[code] ? ` shade-${of[code][0]}` : ""}`);
    }
  };
  const told = (code) => {
    const { unit, of } = shading();
    const [, name, number] = of[code] || [0, "", "0"];
    return popup([
      paragraph(`${name || code || "?"}: ${number} ${unit}`),
      ...(code ? [paragraph(element("a", `Sites in ${code}`, `/custom?country=${encodeURIComponent(code)}`))] : []),
    ]);
  };

  const points = JSON.parse(box.dataset.points);
  const drawn = L.layerGroup().addTo(map);
  const group = () => {
    drawn.clearLayers();
    const cells = new Map();
    for (const point of points) {
      const at = map.project([point[0], point[1]], map.getZoom());
      const key = `${Math.floor(at.x / CELL)} ${Math.floor(at.y / CELL)}`;
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(point);
    }
    for (const each of cells.values()) {
      const size = Math.max(...each.map((point) => point[3]));
      const at = [0, 1].map((axis) => each.reduce((sum, point) => sum + point[axis], 0) / each.length);
      const radius = 4 + 8 * size + (each.length > 1 ? 3 * Math.log10(each.length) + 2 : 0);
      const marker = L.circleMarker(at, { radius, className: "point" }).addTo(drawn);
      const bounds = L.latLngBounds(each.map((point) => [point[0], point[1]]));
      const apart = !bounds.getSouthWest().equals(bounds.getNorthEast()) && map.getZoom() < map.getMaxZoom();
      if (each.length > 1 && apart) {
        marker.on("click", () => map.fitBounds(bounds.pad(0.2), { maxZoom: map.getMaxZoom() }));
        continue;
      }
      const list = element("ul");
      for (const [, , locid, , label] of each.slice(0, MOST_NAMED)) {
        const line = element("li");
        line.append(element("a", label, `/custom/${locid}`));
        list.append(line);
      }
      const more = each.length > MOST_NAMED ? [paragraph(element("a", `and ${each.length - MOST_NAMED} more`, "/custom"))] : [];
      marker.bindPopup(popup([list, ...more]), open);
    }
    box.dataset.groups = String(cells.size);
  };

  fetch(box.dataset.outlines).then((answer) => answer.json()).then((topology) => {
    for (const { code, polygons } of decoded(topology)) {
      const layer = L.polygon(polygons, { className: "country", interactive: true }).addTo(map);
      layer.bindPopup(() => told(code), open);
      if (code) shapes.set(code, layer);
    }
    shade();
    group();
    map.on("zoomend", group);
    box.dataset.ready = "yes";
  });
  // The counts of a large state come after the page.
  document.addEventListener("htmx:afterSettle", shade);
})();
