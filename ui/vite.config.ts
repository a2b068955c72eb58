import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'

// Addresses are relative, so that the bundle works under any path of a reverse proxy. Nothing is inlined:
// the page's policy allows no data addresses and no inline code.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    outDir: '../src/homeostat/server/bundle',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
  server: { proxy: { '/v1': { target: 'http://127.0.0.1:7700', ws: true }, '/api': 'http://127.0.0.1:7700' } },
  test: { include: ['tests/**/*.test.ts'], environment: 'node' },
})
